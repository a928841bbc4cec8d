"""Pre-train BERT on text or records: `kbert.pretrain`."""

from kbert.tasks.pretraining.pretraining_run import PretrainingRun
from kbert.tasks.pretraining.pretraining_settings import PretrainingSettings
from kbert.tasks.pretraining.run_pretraining import run_pretraining


def pretrain(
    corpus_or_records,
    *,
    vocabulary=None,
    lowercase=True,
    size=None,
    init=None,
    steps,
    batch_size=32,
    learning_rate=1e-4,
    warmup_steps=None,
    schedule="linear",
    sequence_length=128,
    max_predictions=None,
    whole_word=False,
    next_sentence=True,
    left_to_right=False,
    dropout=None,
    held_out=0.01,
    evaluation_batches=50,
    seed=0,
    strategy="auto",
    logical_cpus=None,
    precision="auto",
    checkpoint_every=500,
    log_every=None,
    callbacks=(),
    log_dir=None,
    output=None,
    overwrite=False,
    dry_run=False,
) -> PretrainingRun:
    """Pre-trains BERT: masked language model and next sentence prediction, with the paper's optimizer.

    With `output`, the same call resumes a killed run, with bit-for-bit the same weights on a CPU. The
    directory then holds model/ (a kbert directory), metrics.json, settings.json, inputs.json (sizes and hashes),
    history.jsonl, logs/ (TensorBoard) and, until the run is finished, checkpoints/. Without `output` nothing is
    written. Progress is logged to the logger "kbert".

    Args:
        corpus_or_records: a directory of records (`kbert.corpus.write_records`), or path(s) or glob pattern(s) of text.
        vocabulary: for text: path of a vocab.txt, list of tokens, or `kbert.BertTokenizer`. `init` and records have
            their own.
        lowercase: bool, for a vocabulary that is not a tokenizer: False for cased text.
        size: str, "tiny" to "large", of new weights; "tiny" by default.
        init: the model to start from instead of new weights: a source for `kbert.load_pretrained`, or a
            `kbert.BertPretrainer` or its pipeline, which is then trained itself.
        steps: int, weight updates; the paper: 1,000,000.
        batch_size: int, sequences per update, over all replicas; the paper: 256.
        learning_rate: float, the peak.
        warmup_steps: int, of rising learning rate; a tenth of `steps` by default, at most 10,000.
        schedule: "linear", to 0 at the end, as the paper; "constant" after the warm-up: such a run keeps its last
            checkpoint, and the same call with more `steps` and the same `warmup_steps` extends it.
        sequence_length: int, tokens; the paper: 128 for 90 % of the steps, then 512.
        max_predictions: int, the maximum number of masks in a sequence; by default 20 at length 128, 80 at 512.
        whole_word: bool, mask whole words (Google's release of May 2019).
        next_sentence: bool; False is the "No NSP" ablation of section 5.1.
        left_to_right: bool, left-only attention, the "LTR" of section 5.1.
        dropout: float, instead of 0.1.
        held_out: float, the share of a corpus' documents that are only for evaluation; records have their own.
        evaluation_batches: int.
        seed: int, decides new weights, dropout, pairs, masks and order.
        strategy, precision, logical_cpus: see `kbert.training.hardware.choose_hardware`.
        checkpoint_every: int, steps; the held-out data are evaluated at the same time.
        log_every: int, steps; by default the divisor of `checkpoint_every` nearest to 100.
        callbacks: further Keras callbacks; their epochs are windows of `log_every` steps.
        log_dir: path of the TensorBoard logs; logs/ in `output` by default.
        output: path of a directory.
        overwrite: bool, delete another run in `output`.
        dry_run: bool, train and write nothing: `metrics` has the sequences of an epoch, parameters and tokens, and
            estimates of memory and time.

    Returns:
        `PretrainingRun`.

    Raises:
        ValueError: incompatible arguments, damaged or empty files, inputs that changed since the run was started, a
            batch that does not fit into memory.
        FileExistsError: `output` holds a finished run, one with other settings, or other files.
        FileNotFoundError: no such vocabulary or model.
        RuntimeError: the requested hardware does not exist.
        FloatingPointError: the training diverged.
        Interrupted: SIGINT or SIGTERM, after the step was saved.

    Source: Devlin et al. 2018, section 3.1 and appendix A.2.

    Example::

        run = kbert.pretrain("corpus/*.txt", vocabulary="vocab.txt", size="tiny", steps=10_000, output="runs/tiny")
        run.metrics["mlm_accuracy"], run.pipeline.predict(["A [MASK] day."])["tokens"]
    """
    settings = PretrainingSettings(
        source=corpus_or_records,
        vocabulary=vocabulary,
        lowercase=lowercase,
        size=size,
        init=init,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        warmup_steps=warmup_steps,
        schedule=schedule,
        sequence_length=sequence_length,
        max_predictions=max_predictions,
        whole_word=whole_word,
        next_sentence=next_sentence,
        left_to_right=left_to_right,
        dropout=dropout,
        held_out=held_out,
        evaluation_batches=evaluation_batches,
        seed=seed,
        strategy=strategy,
        logical_cpus=logical_cpus,
        precision=precision,
    )
    return run_pretraining(
        settings,
        checkpoint_every=checkpoint_every,
        log_every=log_every,
        callbacks=callbacks,
        log_dir=log_dir,
        output=output,
        overwrite=overwrite,
        dry_run=dry_run,
    )
