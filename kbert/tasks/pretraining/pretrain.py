"""Pre-train BERT on text or records: `kbert.pretrain`."""

import logging
import pathlib
import shutil
import time

import keras
import numpy as np

from kbert.inspection.masked_examples import MaskedExamples
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.optim.warmup_constant import WarmupConstant
from kbert.pipelines.settings import ModelSettings
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.dataset_statistics import dataset_statistics, format_report
from kbert.pretraining.unigrams import token_counts, unigram_baseline
from kbert.tasks.pretraining.pretraining_run import PretrainingRun
from kbert.tasks.pretraining.pretraining_settings import PretrainingSettings
from kbert.tasks.pretraining.starting_model import starting_model
from kbert.training.batch_memory import check_batch_memory
from kbert.training.callbacks import ConsoleProgress, TensorBoardScalars
from kbert.training.dry_run import count_sequences, estimate_training
from kbert.training.hardware import choose_hardware
from kbert.training.intervals import check_intervals, log_interval
from kbert.training.log_names import readable_logs
from kbert.training.resume import fit_steps
from kbert.training.run_directory import open_run
from kbert.weights.save import save_pretrained

_LOGGER = logging.getLogger("kbert")
_LOG_EVERY = 100  # steps, where nothing is given
_STATISTICS_BATCHES = 20
_BASELINE_TOKENS = 2_000_000


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
    start = time.perf_counter()
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
    log_every = log_every or log_interval(checkpoint_every, _LOG_EVERY)
    check_intervals(checkpoint_every, log_every)
    hardware = choose_hardware(strategy, precision, logical_cpus=logical_cpus)
    keras.utils.set_random_seed(seed)
    model, tokenizer = starting_model(settings, hardware)
    check_batch_memory(model, batch_size, sequence_length)
    evaluation = _dataset(settings, tokenizer, evaluation=True, batches=evaluation_batches)
    if dry_run:
        _compile(model, settings, hardware)
        sequences, complete = count_sequences(_dataset(settings, tokenizer, epochs=1))
        estimates = estimate_training(model, _dataset(settings, tokenizer), steps)
        metrics = {"sequences_per_epoch": sequences, "sequences_are_all": complete, **estimates}
        return PretrainingRun(metrics, [], model, tokenizer, _model_settings(model, settings, tokenizer))
    run = None
    if output is not None:
        run = open_run(
            output,
            settings.to_dict(),
            overwrite,
            hardware,
            inputs=settings.inputs(),
            recipe="pretrain.py",
            schedule=_schedule,
        )
    _LOGGER.info("%s", hardware.describe())
    try:
        statistics, unigram = _describe_data(settings, tokenizer, evaluation)
    except Exception:  # after an empty or damaged corpus no files remain
        if run is not None and run.is_chief and not run.resume:
            shutil.rmtree(run.path)
        raise
    _compile(model, settings, hardware)
    logs = pathlib.Path(log_dir) if log_dir else run.path / "logs" if run else None
    windows = checkpoint_every // log_every
    history = fit_steps(
        model,
        lambda start_step: _dataset(settings, tokenizer, start_step=start_step),
        steps,
        run.path if run else None,
        window=log_every,
        checkpoint_every=windows,
        validation_data=evaluation,
        validation_every=windows,
        real_share=1 - statistics["padding_share"],
        callbacks=[ConsoleProgress(), *_tensorboard(logs, tokenizer, evaluation, windows), *callbacks],
    )
    scores = model.evaluate(evaluation, return_dict=True, verbose=0)
    metrics = readable_logs(scores, model) | {
        "unigram": unigram,
        "pipeline": statistics,
        "steps": steps,
        "parameters": model.count_params(),
        "tokens_per_second": history[-1]["tokens_per_second"] if history else None,  # only the chief keeps it
        "minutes": (time.perf_counter() - start) / 60,
    }
    model_settings = _model_settings(model, settings, tokenizer)
    if run is not None:

        def save(path, made_by):
            save_pretrained(model, path, tokenizer=tokenizer, settings=model_settings, made_by=made_by, overwrite=True)

        run.finish(metrics, save, keep_checkpoint=schedule == "constant")
    return PretrainingRun(metrics, history, model, tokenizer, model_settings, run.path if run else None)


def _dataset(settings, tokenizer, **which):
    return pretraining_dataset(
        settings.source,
        tokenizer,
        batch_size=settings.batch_size,
        sequence_length=settings.sequence_length,
        max_predictions=settings.max_predictions,
        seed=settings.seed,
        held_out=settings.held_out,
        next_sentence=settings.next_sentence,
        whole_word=settings.whole_word,
        **which,
    )


def _describe_data(settings, tokenizer, evaluation):
    """Statistics of the training batches, and the scores of frequencies alone on the evaluation batches."""
    statistics = dataset_statistics(_dataset(settings, tokenizer), tokenizer, batches=_STATISTICS_BATCHES)
    _LOGGER.info("%s", format_report(statistics))
    counts = token_counts(settings.source, tokenizer, _BASELINE_TOKENS, held_out=settings.held_out)
    unigram = unigram_baseline(counts, evaluation)
    _LOGGER.info(
        "token frequencies alone: loss %.3f, accuracy %.1f%%", unigram["cross_entropy"], 100 * unigram["accuracy"]
    )
    if settings.next_sentence:
        unigram["nsp_accuracy"] = _most_frequent_share(evaluation)
        _LOGGER.info("always the more frequent next sentence label: accuracy %.1f%%", 100 * unigram["nsp_accuracy"])
    return statistics, unigram


def _most_frequent_share(evaluation):
    """Accuracy of saying for every pair of the evaluation what most of them are."""
    counts = np.zeros(2)
    for _, labels, weights in evaluation.as_numpy_iterator():
        np.add.at(counts, labels["nsp_logits"], weights["nsp_logits"])
    return float(counts.max() / counts.sum())


def _schedule(settings):
    """The learning rate schedule of these settings: that of appendix A.2, or the same without decay."""
    if settings["schedule"] == "constant":
        return WarmupConstant(settings["learning_rate"], settings["warmup_steps"])
    return WarmupLinearDecay(settings["learning_rate"], settings["warmup_steps"], settings["steps"])


def _compile(model, settings, hardware):
    """Appendix A.2: Adam with a linear warm-up and decay, weight decay 0.01, clipping at 1.0."""
    with hardware.scope():
        model.compile(AdamW(_schedule(settings.to_dict())), jit_compile=hardware.jit_compile)


def _tensorboard(logs, tokenizer, evaluation, every):
    if logs is None:
        return []
    return [TensorBoardScalars(logs), MaskedExamples(tokenizer, next(iter(evaluation)), logs, every=every)]


def _model_settings(model, settings, tokenizer):
    return ModelSettings(task=model.task, sequence_length=settings.sequence_length, tokenizer=tokenizer.settings())
