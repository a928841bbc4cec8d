"""Pre-train BERT on text or records: `kbert.pretrain`."""

import dataclasses

from kbert.pretraining.run.corpus_source import check_paths, corpus_source
from kbert.pretraining.run.pretraining_run import PretrainingRun
from kbert.pretraining.run.pretraining_settings import PretrainingSettings
from kbert.pretraining.run.run_pretraining import run_pretraining


def pretrain(
    corpus_or_records,
    *,
    vocabulary=None,
    lowercase=True,
    size=None,
    init=None,
    settings=None,
    steps=None,
    hours=None,
    phases=None,
    batch_size=None,
    batch_size_ramp=None,
    accumulate=1,
    steps_per_execution=1,
    optimizer="adamw",
    learning_rate=None,
    warmup_steps=None,
    warmup_share=None,
    schedule=None,
    bias_correction=None,
    layer_decay=None,
    weight_decay=0.01,
    rematerialize=None,
    sequence_length=None,
    max_predictions=None,
    whole_word=False,
    mask_rate=None,
    mask_token_rate=None,
    keep_rate=None,
    random_token_rate=None,
    span_length=None,
    names=None,
    dupe_factor=None,
    next_sentence=True,
    random_next_rate=None,
    left_to_right=False,
    position_embedding=None,
    position_initializer=None,
    initializer_stddev=None,
    dropout=None,
    packed=None,
    fill_rows=False,
    held_out=None,
    evaluation_batches=50,
    seed=0,
    strategy="auto",
    logical_cpus=None,
    precision="auto",
    xla="auto",
    checkpoint_every=500,
    keep_every=None,
    keep_best=False,
    log_every=None,
    callbacks=(),
    log_dir=None,
    profile=None,
    data_service=None,
    output=None,
    overwrite=False,
    dry_run=False,
) -> PretrainingRun:
    """Pre-trains BERT: masked language model and next sentence prediction, with the paper's optimizer.

    With `output`, the same call resumes a killed run, and on a CPU ends with bit for bit the same weights. The
    directory then holds model/ (a kbert directory), metrics.json, settings.json, inputs.json (sizes and hashes),
    history.jsonl, logs/ (TensorBoard) and, until the run is finished, checkpoints/. Without `output` nothing is
    written. Progress is logged to the logger "kbert".

    Args:
        corpus_or_records: a directory of records (`kbert.corpus.write_records`), path(s) or glob pattern(s) of text, or
            documents in memory: a list of documents, each a list of sentences or a text, or rows with a column
            ``text`` (a dict, a list of dicts, a pandas DataFrame, a finite tf.data.Dataset), each a document of running
            prose; or path(s) or pattern(s) of .tfrecord files of the original's create_pretraining_data.py.
        vocabulary: for text: path of a vocab.txt, list of tokens, or `kbert.BertTokenizer`. `init` and records have
            their own. Where several are given, tokens and settings must be the same.
        lowercase: bool, for a vocabulary that is not a tokenizer: False for cased text.
        size: str, the size of a new model, "tiny" to "large"; "tiny" by default. With an `init` that is loaded: the
            larger size to which that model is grown first (`kbert.models.grow_model`).
        init: the model to start from instead of new weights: a source for `kbert.load_pretrained`, or a
            `kbert.BertPretrainer` or its pipeline, which is then trained itself (to resume, give it as it was at the
            start). The held-out scores before the first step are then `metrics["before"]`, on the rows of the others.
            AdamW without bias correction takes over the moments of a checkpoint of Google's that has them; the schedule
            begins anew.
        settings: str, a set of defaults for what is not given, "paper" or "small-budget"
            (`kbert.pretraining.run.named_settings`).
        steps: int, weight updates; the paper: 1,000,000.
        hours: float, instead of `steps`: hours to train; warm-up, decay and phases, each at least a step, are shares of
            this time. The time of a run that was killed continues from its last step.
        phases: instead of `sequence_length`, parts of the run in order, each (sequence length, share of the run), and
            if given its own batch size and `max_predictions`: the paper's are [(128, 0.9), (512, 0.1)].
        batch_size: int, sequences per update, over all replicas, 32 by default; the paper: 256.
        batch_size_ramp: (first batch size, share of the run in which it is doubled up to `batch_size`).
        accumulate: int, the number of micro-batches into which a replica divides its share of an update: less memory,
            the same update.
        steps_per_execution: int, of `compile`.
        optimizer: "adamw", or "lamb" for batches of thousands of sequences.
        learning_rate: float, the peak, 1e-4 by default; `schedule` chooses its course.
        warmup_steps: int, steps of rising learning rate; a tenth of `steps` by default, at most 10,000.
        warmup_share: float, instead of `warmup_steps`, a share of the run; a tenth of `hours` by default.
        schedule: "linear", to 0 at the end, as the paper (the default); "stable": constant after the warm-up, and to 0
            in the last fifth; "constant" after the warm-up: such a run keeps its last checkpoint, and the same call
            with more `steps` and the same `warmup_steps` extends it.
        bias_correction: bool, Adam's bias correction, which the paper's optimizer lacks; False by default. "lamb"
            always has it.
        layer_decay: float, the ratio of a layer's learning rate to that of the layer above.
        weight_decay: float, of all weights but biases and layer normalisations.
        rematerialize: bool, keep only the inputs of encoder blocks for the gradient and recompute the rest: less
            memory, about a third more time. None: as the blocks of `init` are; new ones keep everything.
        sequence_length: int, tokens, 128 by default.
        max_predictions: int, the maximum number of masks in a sequence; by default 20 at length 128, 80 at 512, and
            more at another `mask_rate`.
        whole_word: bool, mask whole words (Google's release of May 2019).
        mask_rate: float, the share of the tokens that are predicted, 0.15 by default.
        mask_token_rate, keep_rate, random_token_rate: floats, the shares of these that become [MASK], stay as they are
            and become random tokens, 0.8, 0.1 and 0.1 by default; they add up to 1 (table 8 of the paper).
        span_length: int, mask spans of that many tokens as a whole (`kbert.pretraining.aligned_spans`).
        names: path of a file with a name a line: mask them as a whole (`kbert.pretraining.known_names`).
        dupe_factor: int, after how many epochs the same pairs and masks are repeated, 10 in the original; None: never.
        next_sentence: bool; False is the "No NSP" ablation of section 5.1.
        random_next_rate: float, the share of pairs with a random second segment, 0.5 by default.
        left_to_right: bool, the "LTR" of section 5.1: left-only attention, and every token predicts the next one
            instead of masks; `init` must be such a model, too. A text is then pooled at its last token, the only one
            that attends to all others.
        position_embedding: of a new model, "learned" (the default) or "sinusoidal", as in the Transformer.
        position_initializer: of learned positions of a new model, "normal" (the default) or "sinusoidal": they start
            as the Transformer's.
        initializer_stddev: float, the standard deviation of new weights, 0.02 by default, as in the original for all
            sizes; or "scaled": 0.02 · √(768 / H), the same at the width of base and more for narrower models.
        dropout: float, instead of 0.1.
        packed: bool, several short pairs in a row (`kbert.pretraining.pretraining_dataset`): the same losses
            and less time where pairs are short. None: if rows then hold at least 1.05 times as much text. The model of
            the run is for plain rows in any case.
        fill_rows: bool, packed rows with further short pairs where they have space: for documents that are shorter than
            a row (`kbert.pretraining.further_parts`).
        held_out: float, for text: the share of the documents that are only for evaluation, 0.01 by default (of
            TFRecords the share of the rows); records have their own.
        evaluation_batches: int, the number of batches made from the held-out documents.
        seed: int, determines new weights, dropout, pairs, masks and order.
        strategy, precision, xla, logical_cpus: see `kbert.training.choose_hardware`.
        checkpoint_every: int, steps between checkpoints; the held-out data are evaluated at the same time.
        keep_every: int, steps, a multiple of `checkpoint_every`: checkpoints at its multiples are kept for good.
            `kbert.load_pretrained("runs/tiny@20000")` loads the model of one.
        keep_best: bool, keep the checkpoint with the lowest held-out loss for good: `metrics["best_step"]` names it,
            and ``RUN@STEP`` loads it. The run's own model is that of its last step in any case.
        log_every: int, steps; by default the divisor of `checkpoint_every` nearest to 100.
        callbacks: further Keras callbacks, or one; their epochs are windows of `log_every` steps. None that sets the
            learning rate (LearningRateScheduler, ReduceLROnPlateau): `schedule` does.
        log_dir: path of the TensorBoard logs (`kbert.inspection.TensorBoard`); logs/ in `output` by default.
        profile: steps to profile for TensorBoard, as "20:25", with `log_dir` or `output`.
        data_service: "host:port" of a service that makes the training batches (recipes/serve_data.py); of records.
        output: path of a directory.
        overwrite: bool, delete another run in `output`.
        dry_run: bool, train and write nothing, and leave `init` as it is: `metrics` has the number of sequences of an
            epoch, of parameters and of tokens, and estimates of memory and time.

    Returns:
        `PretrainingRun`.

    Raises:
        TypeError: `corpus_or_records` or `callbacks` of another type.
        ValueError: incompatible arguments, another tokenizer than that of `init`, damaged or empty files, inputs that
            changed since the run was started, a batch that does not fit into memory.
        FileExistsError: `output` holds a finished run, one with other settings, or other files.
        FileNotFoundError: no such vocabulary or model.
        RuntimeError: the requested hardware does not exist.
        FloatingPointError: the training diverged.
        Interrupted: SIGINT or SIGTERM, after the step was saved.

    Source: Devlin et al. 2018, section 3.1 and appendix A.2.

    Example::

        run = kbert.pretrain("records", size="tiny", settings="small-budget", steps=40_000, output="runs/tiny")
        run.metrics["mlm_accuracy"], run.pipeline.predict(["A [MASK] day."])["tokens"]
    """
    given = locals()  # all arguments by name
    fields = [field.name for field in dataclasses.fields(PretrainingSettings) if field.name in given]
    source = corpus_source(given.pop("corpus_or_records"))
    settings = PretrainingSettings(source=source, **{name: given.pop(name) for name in fields})
    check_paths(source)
    return run_pretraining(settings, **given)
