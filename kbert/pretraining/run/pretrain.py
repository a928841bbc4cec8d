"""Pre-train BERT on text, records or batches: `kbert.pretrain`."""

import dataclasses
import functools
import inspect
import itertools
import logging
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from kbert.aliases import ExampleData, ModelSource, PathLike, VocabularySource
from kbert.config import MASK_RATE
from kbert.options import (
    NOT_RECORDED,
    Count,
    Fraction,
    FractionBelowOne,
    Natural,
    NonzeroFraction,
    Optimization,
    Positive,
    Precision,
    Strategy,
    checked,
    record,
)
from kbert.pretraining.run.options import RANDOM_NEXT_RATE, SEQUENCE_LENGTH, Execution, Masking, NewModel, PhasePlan

if TYPE_CHECKING:
    import keras

    from kbert.aliases import Callbacks
    from kbert.models.pretrainer import BertPretrainer
    from kbert.pipelines.pipeline import Pipeline
    from kbert.pipelines.settings import ModelSettings
    from kbert.pretraining.run.corpus_data import CorpusData
    from kbert.pretraining.run.course import Course, LearningRate
    from kbert.pretraining.run.held_out_scores import HeldOutScores
    from kbert.pretraining.run.starting_model import Start
    from kbert.pretraining.run.stored_batches import StoredBatches
    from kbert.training import Hardware, RunLog
    from kbert.training.run_directory import RunDirectory

_LOGGER = logging.getLogger("kbert")
SIZES = Literal["tiny", "mini", "small", "medium", "base", "large"]
_TIMED_STEPS = 20  # of each phase, for `hours`


@dataclasses.dataclass(frozen=True)
class PretrainingRun:
    """A finished pre-training, or with `dry_run` its estimates.

    Attributes:
        metrics: dict: held-out losses and accuracies at the end, the unigram baseline, statistics of the data; for a
            dry run the estimates.
        history: list of dicts, the logs of every window of steps.
        model: `kbert.BertPretrainer` with the weights of the last step, compiled with the optimizer of the run; for
            plain rows, even if the run packed them.
        tokenizer: `kbert.BertTokenizer`; None for batches on another backend than TensorFlow's.
        settings: `ModelSettings`.
        path: `pathlib.Path` of the output directory; None without one.
    """

    metrics: dict[str, Any]
    history: list[dict[str, float]] = dataclasses.field(repr=False)
    model: Any = dataclasses.field(repr=False)
    tokenizer: Any = dataclasses.field(repr=False)
    settings: Any = dataclasses.field(repr=False)
    path: pathlib.Path | None = None

    @functools.cached_property
    def pipeline(self) -> "Pipeline":
        """The fill-mask pipeline of the model, built on first use."""
        from kbert.weights.build_pipeline import build_pipeline

        return build_pipeline(self.model, self.tokenizer, sequence_length=self.settings.sequence_length)


@checked
def pretrain(
    corpus_or_records: list[PathLike] | ExampleData,
    *,
    vocabulary: VocabularySource | None = None,
    lowercase: bool = True,
    size: SIZES | None = None,
    init: ModelSource | None = None,
    steps: Count | None = None,
    hours: Positive | None = None,
    phases: Sequence[PhasePlan] | None = None,
    sequence_length: Count = SEQUENCE_LENGTH,
    batch_size: Count = 32,
    learning_rate: Positive = 1e-4,
    schedule: Literal["linear", "stable", "constant"] = "linear",
    warmup_steps: Count | FractionBelowOne | None = None,
    dropout: FractionBelowOne | None = None,
    mask_rate: NonzeroFraction = MASK_RATE,
    whole_word: bool = False,
    next_sentence: bool = True,
    random_next_rate: Fraction = RANDOM_NEXT_RATE,
    left_to_right: bool = False,
    packed: bool | None = None,
    fill_rows: bool = False,
    held_out: FractionBelowOne | None = None,
    evaluation_batches: Count = 50,
    seed: Natural = 0,
    strategy: Strategy = "auto",
    precision: Precision = "auto",
    masking: Masking = Masking(),
    optimization: Optimization = Optimization(),
    new_model: NewModel = NewModel(),
    execution: Execution = Execution(),
    checkpoint_every: Annotated[Count, NOT_RECORDED] = 500,
    log_every: Annotated[Count, NOT_RECORDED] = 100,
    log_dir: Annotated[PathLike | None, NOT_RECORDED] = None,
    profile: Annotated[str | None, NOT_RECORDED] = None,
    callbacks: Annotated["Callbacks", NOT_RECORDED] = (),
    keep_every: Annotated[Count | None, NOT_RECORDED] = None,
    keep_best: Annotated[bool, NOT_RECORDED] = False,
    output: Annotated[PathLike | None, NOT_RECORDED] = None,
    overwrite: Annotated[bool, NOT_RECORDED] = False,
    dry_run: Annotated[bool, NOT_RECORDED] = False,
) -> PretrainingRun:
    """Pre-trains BERT: masked language model and next sentence prediction, with the paper's optimizer.

    With `output`, the same call resumes a killed run, and on a CPU ends with bit for bit the same weights. The
    directory then holds model/, metrics.json, settings.json, inputs.json (sizes and hashes), history.jsonl, logs/
    (TensorBoard), records/ if it was given text and, until the run is finished, checkpoints/. Without `output` nothing
    is kept. Progress is logged to the logger "kbert".

    Args:
        corpus_or_records: a directory of records (`kbert.corpus.write_records`), path(s) or glob pattern(s) of text, or
            documents in memory: a list of documents, each a list of sentences or a text, or rows with a column
            ``text`` (a dict, a list of dicts, a pandas DataFrame, a finite tf.data.Dataset), each a document of running
            prose. Text is written to records first. Or path(s) or pattern(s) of .tfrecord files of Google's
            create_pretraining_data.py; or a directory of batches (``kbert batches``), which needs no TensorFlow: the
            batches have decided how rows are made, batch size and order, and `init` is a model's directory.
        vocabulary: for text: path of a vocab.txt, list of tokens, or `kbert.BertTokenizer`. `init` and records have
            their own. Where several are given, tokens and settings must be the same.
        lowercase: whether the tokenizer lower-cases text, if `vocabulary` is a file or a list.
        size: the size of a new model. Defaults to "tiny". With an `init` that is loaded: the larger size to which that
            model is grown first (`kbert.models.grow_model`).
        init: the model to start from instead of new weights: a source for `kbert.load_pretrained`, or a
            `kbert.BertPretrainer` or its pipeline, trained in place; to resume, pass its original weights. The held-out
            scores before the first step are then `metrics["before"]`, on the same held-out rows.
        steps: weight updates; the paper: 1,000,000. Defaults to all batches of a directory of batches.
        hours: hours of training, instead of `steps`: a few steps of each phase are timed first, and the steps there is
            time for are stored in settings.json; evaluating and saving come on top. If both are given, as in that
            settings.json, `steps` overrides `hours`.
        phases: instead of `sequence_length`, parts of the run in order, each (sequence length, fraction of the steps),
            and optionally its own batch size and `max_predictions`: the paper's are [(128, 0.9), (512, 0.1)], on the
            command line 128:0.9 512:0.1.
        sequence_length: tokens per row.
        batch_size: sequences per update, over all replicas; the paper: 256.
        learning_rate: the peak.
        schedule: "linear", to 0 at the end, as in the paper; "stable": constant after the warm-up, and to 0 in the last
            fifth; "constant" after the warm-up: such a run keeps its last checkpoint, and the same call with more
            `steps` and the same number of `warmup_steps` extends it.
        warmup_steps: steps of rising learning rate: an integer, or a number below 1, the fraction of the run. Defaults
            to a tenth of the run, at most the paper's 10,000.
        dropout: dropout of a new or loaded model. Defaults to 0.1, or to the loaded model's.
        mask_rate: the fraction of the tokens that are predicted.
        whole_word: whether whole words are masked (Google's release of May 2019).
        next_sentence: whether next sentences are predicted; False is the "No NSP" ablation of section 5.1.
        random_next_rate: the fraction of pairs with a random second segment.
        left_to_right: whether the model is the "LTR" of section 5.1: left-only attention, and every token predicts the
            next one instead of masks; `init` must be such a model, too. A text is then pooled at its last token.
        packed: whether several short pairs share a row (`kbert.pretraining.pretraining_dataset`): the same losses and
            less time where pairs are short. By default they do if rows then hold at least 1.05 times as much text. The
            model of the run is for plain rows in any case.
        fill_rows: whether packed rows get further short pairs where they have space: for documents that are shorter
            than a row (`kbert.pretraining.rows`).
        held_out: for text, the fraction of the documents that are only for evaluation, for TFRecords that of the rows.
            Defaults to 0.01. Records have their own.
        evaluation_batches: the number of batches made from the held-out documents.
        seed: determines new weights, dropout, pairs, masks and order.
        strategy: "auto" takes a TPU if there is one, all GPUs if there are several, else one device; "one", "mirrored",
            "multiworker" or "tpu".
        precision: a Keras dtype policy; "auto" is bfloat16 or float16 where the accelerator is fast with it.
        masking: `Masking`: what becomes of the tokens that are predicted.
        optimization: `Optimization`: optimizer, weight decay, micro-batches.
        new_model: `NewModel`: positions and first weights.
        execution: `Execution`: XLA, memory.
        checkpoint_every: steps between checkpoints; the held-out data are evaluated at the same time.
        log_every: steps of a window of logs.
        log_dir: directory of the TensorBoard logs (`kbert.inspection.TensorBoard`). Defaults to ``logs`` in `output`.
        profile: steps to profile for TensorBoard, as "20:25", with `log_dir` or `output`.
        callbacks: further Keras callbacks, or one; none that sets the learning rate (LearningRateScheduler,
            ReduceLROnPlateau): `schedule` does. A resumed run restores the state of a callback that has ``get_state()``
            and ``set_state(state)``. Keras' own have neither and start anew.
        keep_every: steps: checkpoints at its multiples are kept permanently.
            ``kbert.load_pretrained("runs/tiny@20000")`` loads the model of one.
        keep_best: whether the checkpoint with the lowest held-out loss is kept permanently: `metrics["best_step"]`
            names it, and ``RUN@STEP`` loads it. The run's own model is that of its last step in any case.
        output: path of a directory.
        overwrite: whether to delete another run in `output`.
        dry_run: whether to train and write nothing, and leave `init` unchanged: `metrics` has the number of sequences
            of an epoch, of parameters and of tokens, and estimates of memory and time. Of text the beginning is read.

    Returns:
        `PretrainingRun`.

    Raises:
        TypeError: `corpus_or_records` or `callbacks` of another type.
        ValueError: incompatible arguments, another tokenizer than that of `init`, damaged or empty files, inputs that
            changed since the run was started, a batch that does not fit into memory.
        FileExistsError: `output` contains a finished run, one with other settings, or other files.
        FileNotFoundError: no such vocabulary or model.
        RuntimeError: the requested hardware does not exist.
        FloatingPointError: the training diverged.
        Interrupted: SIGINT or SIGTERM, after the step was saved.

    Source: Devlin et al. 2018, section 3.1 and appendix A.2.

    Example::

        options = kbert.pretraining.preset("small-budget")
        run = kbert.pretrain("records", size="tiny", steps=40_000, output="runs/tiny", **options)
        run.metrics["mlm_accuracy"], run.pipeline.predict(["A [MASK] day."])["tokens"]
    """
    settings = record(pretrain, locals())
    from kbert.inspection.board.tensor_board import log_directory
    from kbert.pretraining.run.course import Course, LearningRate, plan_phases
    from kbert.pretraining.run.held_out_scores import HeldOutScores
    from kbert.pretraining.run.source import corpus_source, is_batches, is_text, records_place
    from kbert.pretraining.run.starting_model import Start
    from kbert.training import RunLog, choose_hardware
    from kbert.training.callbacks import callback_list
    from kbert.training.made_by import note_origin

    log_dir = log_directory("pretrain", log_dir, output, profile)
    callbacks = callback_list("pretrain", callbacks, has_own_rate=True)
    corpus = corpus_source(corpus_or_records)
    plan = plan_phases(phases, batch_size, sequence_length, masking.max_predictions, mask_rate, left_to_right)
    planned = Course(plan, steps, execution.steps_per_execution)
    rate = LearningRate(learning_rate, schedule, warmup_steps)
    start = Start(init, size, vocabulary, lowercase, dropout, new_model, seed)
    if is_batches(corpus):
        of_text = dict(vocabulary=vocabulary, lowercase=lowercase, held_out=held_out, phases=phases, hours=hours)
        data = _stored_batches(corpus, planned, settings, **of_text, left_to_right=left_to_right)
    else:
        _check_corpus(corpus, start, rate, steps, hours)
        from kbert.pretraining.run.corpus_data import CorpusData  # it loads TensorFlow, which batches do without

        data = CorpusData(
            source=corpus,
            course=planned,
            seed=seed,
            mask_rate=mask_rate,
            whole_word=whole_word,
            masking=masking,
            next_sentence=next_sentence,
            random_next_rate=random_next_rate,
            left_to_right=left_to_right,
            packed=packed,
            fill_rows=fill_rows,
            held_out=held_out,
        )
    hardware = choose_hardware(strategy, precision, execution.xla, execution.logical_cpus, source=init)
    hardware.check_batch_sizes(*(phase.batch_size for phase in data.course.phases), accumulate=optimization.accumulate)
    _check_kept(keep_every, keep_best, data.course, output, dry_run)

    model = _starting_model(data, start, hardware, execution.rematerialize, dry_run)
    described = _model_settings(data, model)
    settings |= {} if dry_run else _resolved_settings(corpus, data, start, rate, hours, phases is None)
    extendable = schedule == "constant" and hours is None and len(data.course.phases) == 1
    directory = None if dry_run else output
    run = _open_run(directory, settings, overwrite, hardware, corpus, data, start, masking.names, extendable)
    with records_place(run.path) as place:
        with run.beginning():
            if is_text(corpus):
                data.write_records(place, hardware, run.path, dry_run)
            data.choose_packing(run.settings.get("packed"))
            if data.course.steps is None:
                known = run.settings.get("steps") or _steps_of_hours(hours, data, model, optimization, hardware, seed)
                data.course = dataclasses.replace(data.course, steps=known)
            course = data.course
            trained = _view(model, data.num_parts, hardware)
            _compile(trained, model, optimization, rate.of_run(course.steps), execution.steps_per_execution, hardware)
            _check_memory(trained, course)
            evaluations = data.evaluations(evaluation_batches, optimization.accumulate)
            if dry_run:
                estimate = _estimate(data, trained, optimization, rate, hardware)
                return PretrainingRun(estimate, [], model, data.tokenizer, described)
            about_data = data.describe(evaluations[-1])
            run.decide(packed=data.packed, steps=course.steps)

        _log_plan(hardware, course, model, about_data, start)
        _describe_checkpoints(run, model, described, data.vocabulary)
        boards, examples = _show(log_dir, run.settings, data, model, evaluations[0], about_data, profile)
        scoring = HeldOutScores(trained, evaluations, course, checkpoint_every, init is not None, examples)
        best = scoring.best_step if keep_best else lambda: None
        log = RunLog(run.path)
        callbacks, done = _resume(run, trained, [scoring, log, *boards, *callbacks], checkpoint_every, keep_every, best)
        _train(trained, data, scoring, log, about_data.real_fractions, done, log_every, callbacks)
        scores = scoring.score(-1)
        metrics = scores | _metrics(log, course, trained, about_data, best())
        if hardware.is_chief:
            for board in boards:
                board.finish({**scores, "minutes": metrics["minutes"]}, metrics["steps"])
        save = functools.partial(_save, model, described, data.vocabulary)
        run.finish(metrics, save, keep_checkpoint=extendable, keep_every=keep_every, keep_step=best())
        note_origin(model, run, metrics)
    return PretrainingRun(metrics, log.records, model, data.tokenizer, described, run.path)


def _stored_batches(corpus: PathLike, course: "Course", settings: Mapping[str, Any], **of_text: Any) -> "StoredBatches":
    """Stored batches, which have a course of their own; ValueError for other settings than they were written with.

    `of_text` are arguments that batches leave at their defaults.
    """
    from kbert.pretraining.run.stored_batches import StoredBatches

    data = StoredBatches(corpus, course)
    parameters = inspect.signature(pretrain).parameters.items()
    defaults = record(pretrain, {name: parameter.default for name, parameter in parameters})
    given = {name: value for name, value in settings.items() if name in data.manifest} | of_text
    del given["steps"], given["seed"]  # of the run itself
    changed = {name: value for name, value in given.items() if value not in (defaults[name], data.manifest.get(name))}
    if changed:
        raise ValueError(f"pretrain: batches were drawn and masked when they were written. Received: {changed} as well")
    return data


def _check_corpus(corpus: Any, start: "Start", rate: "LearningRate", steps: int | None, hours: float | None) -> None:
    """Raises ValueError for arguments that do not go together, or not with this corpus; logs that `hours` is unused."""
    from kbert.pretraining.run.starting_model import check_start

    if steps is None and hours is None:
        raise ValueError("pretrain: expected either `steps` or `hours`. Received: neither")
    if steps is not None and hours is not None:
        _LOGGER.info("`steps` overrides `hours`: %s steps", f"{steps:,}")
    if steps is not None:
        rate.warmup(steps)  # an error if it is longer
    check_start(start, corpus)


def _check_kept(keep_every, keep_best, course, output, dry_run):
    if keep_every is not None and output is None and not dry_run:
        raise ValueError(f"pretrain: `keep_every` needs `output`. Received: keep_every={keep_every!r} and output=None")
    if keep_best and (output is None or len(course.phases) > 1):
        received = f"output={output!r} and {len(course.phases)} phases"
        raise ValueError(f"pretrain: `keep_best` needs `output` and rows of one length. Received: {received}")


def _starting_model(
    data: "CorpusData | StoredBatches",
    start: "Start",
    hardware: "Hardware",
    rematerialize: bool | None,
    dry_run: bool,
) -> "BertPretrainer":
    """The model of the run: where `init` is for packed rows, a view that shares its layers; a dry run has a copy."""
    from kbert.keras_compat import seeded
    from kbert.models.copies import copy_model
    from kbert.models.quantized_layers import check_not_quantized

    with seeded(start.seed):
        model = data.starting_model(start, hardware)
        check_not_quantized(model)
        if model.config.causal != data.left_to_right:
            kinds = {True: "left-to-right", False: "bidirectional"}
            raise ValueError(
                f"pretrain: `init` must be a {kinds[data.left_to_right]} model with "
                f"left_to_right={data.left_to_right}, whose attention suits what it predicts. "
                f"Received: a {kinds[model.config.causal]} model"
            )
        if dry_run and start.is_given:
            with hardware.scope():
                model = copy_model(model)
        if rematerialize is not None:
            for block in model.encoder.blocks:
                block.rematerialize = rematerialize
        view = _view(model, None, hardware)
        view.pretrained = model.pretrained
        return view


def _view(model: "BertPretrainer", num_parts: int | None, hardware: "Hardware") -> "BertPretrainer":
    """The model for rows with so many parts: itself, or a view that shares its layers."""
    if model.encoder.num_parts == num_parts:
        return model
    with hardware.scope():
        return model.with_parts(num_parts)


def _model_settings(data: "CorpusData | StoredBatches", model: "BertPretrainer") -> "ModelSettings":
    from kbert.pipelines.settings import ModelSettings

    return ModelSettings(
        task=model.task, sequence_length=data.course.sequence_length, tokenizer=data.tokenizer_settings
    )


def _resolved_settings(corpus, data, start, rate, hours, has_one_length) -> dict[str, Any]:
    """What settings.json has of some arguments: objects are identified by the hash of their content."""
    from kbert.options import to_json
    from kbert.training.made_by import identify_model, identify_source, identify_vocabulary

    course = data.course
    settings = {
        "corpus_or_records": identify_source(corpus),
        "vocabulary": identify_vocabulary(start.vocabulary),
        "init": identify_model(start.init),
        "sequence_length": course.sequence_length,
        "held_out": data.held_out,
    }
    if has_one_length:
        [phase] = course.phases
        settings |= {"batch_size": phase.batch_size, "max_predictions": phase.max_predictions}
    else:
        settings["phases"] = course.phases
    if hours is None:  # as steps, not a fraction of them: then a run can be extended; one of hours cannot
        settings["warmup_steps"] = rate.warmup(course.steps)
    return to_json(settings)


def _open_run(
    output: PathLike | None,
    settings: dict[str, Any],
    overwrite: bool,
    hardware: "Hardware",
    corpus: Any,
    data: "CorpusData | StoredBatches",
    start: "Start",
    names: PathLike | None,
    extendable: bool,
) -> "RunDirectory":
    """The directory of the run, a new one or resumed; its `path` is None without an output."""
    from kbert.pretraining.run.source import input_files
    from kbert.training.run_directory import open_run

    inputs = {
        "corpus_or_records": input_files(corpus, output),
        "vocabulary": start.vocabulary if isinstance(start.vocabulary, str | os.PathLike) else None,
        "init": start.init if start.is_loaded else None,
        "names": names,
    }
    return open_run(
        output,
        settings,
        overwrite,
        hardware,
        inputs={name: files for name, files in inputs.items() if files is not None},
        recipe="kbert.pretrain",
        extendable=extendable,
        choices={"packed": data.packed, "steps": data.course.steps},
    )


def _compile(
    trained: "BertPretrainer",
    model: "BertPretrainer",
    optimization: Optimization,
    rate: "float | keras.optimizers.schedules.LearningRateSchedule",
    steps_per_execution: int,
    hardware: "Hardware",
) -> None:
    """Appendix A.2: Adam with a linear warm-up and decay, weight decay 0.01, clipping at 1.0; or what was asked for.

    `trained` is `model` or a view of it for packed rows; both have the same optimizer.
    """
    from kbert.optim.make_optimizer import make_optimizer

    arguments = {
        "micro_batches": optimization.accumulate,
        "jit_compile": hardware.jit_compile,
        "steps_per_execution": steps_per_execution,
    }
    with hardware.scope():
        trained.compile(make_optimizer(optimization, rate), **arguments)
        if model is not trained:
            model.compile(trained.optimizer, **arguments)  # with its loss scale, if there is one


def _check_memory(model, course) -> None:
    """Raises ValueError for a batch that certainly does not fit."""
    from kbert.training.memory import check_batch_memory

    for phase in course.phases:
        check_batch_memory(model, phase.batch_size, phase.sequence_length)


def _steps_of_hours(
    hours: float,
    data: "CorpusData",
    model: "BertPretrainer",
    optimization: Optimization,
    hardware: "Hardware",
    seed: int,
) -> int:
    """The steps there is time for.

    A copy of the model makes some steps of each phase: weights, optimizer, dropout and data of the run are untouched.
    """
    from kbert.keras_compat import seeded
    from kbert.models.copies import copy_model
    from kbert.training.dry_run import mean_seconds_per_step

    course = data.course
    seconds = 0.0  # of a step, mean over the run
    for number, phase in enumerate(course.phases):
        with seeded(seed), hardware.scope():
            copy = _view(copy_model(model), data.num_parts, hardware)
        _compile(copy, copy, optimization, 0.0, 1, hardware)
        measured = mean_seconds_per_step(copy, data.batches(number), _TIMED_STEPS)
        _LOGGER.info("%.3f s a step of %s rows of %s tokens", measured, phase.batch_size, phase.sequence_length)
        seconds += phase.fraction * measured
    steps = max(1, int(3600 * hours / seconds / course.multiple)) * course.multiple
    steps = int(hardware.of_chief(str(steps)))
    _LOGGER.info("%g hours are enough for %s steps", hours, f"{steps:,}")
    return steps


def _log_plan(hardware, course, model, about_data, start) -> None:
    """Logs the hardware, and the size of the model and of the run."""
    from kbert.weights.report import log_dropout

    _LOGGER.info("%s", hardware.describe())
    lines = [f"{model.count_params():,} parameters"]
    for phase, steps in zip(course.phases, course.phase_steps, strict=True):
        lines.append(f"{steps:,} steps of {phase.batch_size:,} rows of {phase.sequence_length} tokens")
    tokens = _count_tokens(course, course.steps)
    real = _count_tokens(course, course.steps, about_data.real_fractions)
    epochs = f", {real / about_data.tokens:.2f} epochs" if about_data.tokens else ""
    lines.append(f"{tokens:,} tokens with padding, about {real:,.0f} without{epochs}")
    _LOGGER.info("%s", "\n".join(lines))
    if start.init is not None:
        log_dropout(model.config, start.init, start.dropout)


def _describe_checkpoints(run, model, described, vocabulary) -> None:
    """Makes models of the checkpoints of a run."""
    from kbert.weights.step_checkpoint import write_description
    from kbert.weights.step_paths import CHECKPOINTS

    if run.path is not None and run.is_chief:
        write_description(run.path / CHECKPOINTS, model, described, vocabulary)


def _show(log_dir, settings, data, model, evaluation, about_data, profile) -> tuple[list, list]:
    """The callbacks that write the logs for TensorBoard, and those that show predictions after evaluations."""
    from kbert.inspection.board.tensor_board import run_board
    from kbert.inspection.examples.masked_examples import MaskedExamples

    if log_dir is None:
        return [], []
    batch = next(iter(evaluation))
    shown = settings | model.config.to_dict() | {"parameters": model.count_params()}
    baseline = {}
    if "unigram" in about_data.metrics:  # of stored batches it is not known
        from kbert.pretraining.dataset_statistics import baseline_curves  # not above: it loads TensorFlow

        baseline = baseline_curves(about_data.metrics["unigram"])
    board = run_board(log_dir, settings=shown, baseline=baseline, batch=batch, profile=profile)
    if board is None:
        return [], []
    return [board], [] if model.config.causal else [MaskedExamples(data.vocabulary, batch, log_dir)]


def _resume(run, model, callbacks, checkpoint_every, keep_every, best) -> "tuple[list[keras.callbacks.Callback], int]":
    """The callbacks with `ExactResume`, which restores the last checkpoint, and the step of that checkpoint."""
    from kbert.training.exact_resume import ExactResume

    if run.path is None:
        return callbacks, 0
    resume = ExactResume(
        run.path, model, every=checkpoint_every, keep_every=keep_every, keep_step=best, callbacks=callbacks
    )
    return [*callbacks, resume], resume.step


def _train(
    model: "BertPretrainer",
    data: "CorpusData | StoredBatches",
    scoring: "HeldOutScores",
    log: "RunLog",
    real_fractions: Sequence[float],
    done: int,
    log_every: int,
    callbacks: "Sequence[keras.callbacks.Callback]",
) -> None:
    """Trains phase after phase with one optimizer, from step `done` on."""
    from kbert.training.loop import train

    course = data.course
    for number, (phase, end) in enumerate(zip(course.phases, course.ends, strict=True)):
        if done >= end:
            continue
        log.real_tokens = real_fractions[number] * phase.batch_size * phase.sequence_length
        scoring.begin(number)
        batches = functools.partial(data.from_step, number)
        done = train(model, batches, course.steps, start=done, end=end, log_every=log_every, callbacks=callbacks)
        if done < end:  # a callback stopped it
            return


def _save(
    model: "BertPretrainer",
    described: "ModelSettings",
    vocabulary: Sequence[str],
    path: pathlib.Path,
    made_by: Mapping[str, Any],
) -> None:
    """Writes the model of the run, without `kbert.save_pretrained`, which needs TensorFlow."""
    from kbert.files import write_directory
    from kbert.models.lora import merged
    from kbert.weights.formats import huggingface

    def write(partial):
        huggingface.write(partial, merged(model), described, vocabulary, made_by=made_by)

    write_directory(path, write, needed=4 * model.count_params())


def _metrics(log, course, model, about_data, best) -> dict[str, Any]:
    """What metrics.json has beside the scores."""
    from kbert.training.run_log import training_minutes

    first, last = (log.records[0], log.records[-1]) if log.records else ({}, {})  # none but on the chief
    done = last.get("step", course.steps)
    real_tokens = _count_tokens(course, done, about_data.real_fractions)
    metrics = about_data.metrics | {
        "epochs": real_tokens / about_data.tokens if about_data.tokens else None,  # if the corpus was counted
        "steps": done,
        "parameters": model.count_params(),
        "tokens_per_second": last.get("tokens_per_second"),
        "minutes": training_minutes(log.records),
    }
    if first.get("step") == 0:
        metrics["before"] = {name.removeprefix("val_"): value for name, value in first.items() if name != "step"}
    return metrics if best is None else metrics | {"best_step": best}


def _count_tokens(course: "Course", steps: int, fractions: Iterable[float] = itertools.repeat(1)) -> float:
    """The tokens of the first `steps`; `fractions` are those of the tokens that count, for each phase."""
    spans = itertools.pairwise([0, *course.ends])
    return sum(
        max(0, min(end, steps) - begin) * phase.batch_size * phase.sequence_length * fraction
        for phase, (begin, end), fraction in zip(course.phases, spans, fractions, strict=False)
    )


def _estimate(data, model, optimization, rate, hardware) -> dict:
    """The metrics of a dry run, which compiles the model and trains it for a few steps.

    What `data.count_sequences` found, and the entries of `estimate_training` over all phases: sums of `steps`, `tokens`
    and `seconds`, the largest `memory_bytes`, the mean `seconds_per_step`; of several phases also `stages`, a list of
    them.
    """
    from kbert.training.dry_run import estimate_training

    course = data.course
    sequences = data.count_sequences()
    stages = []
    for number, (phase, steps) in enumerate(zip(course.phases, course.phase_steps, strict=True)):
        _compile(model, model, optimization, rate.of_run(course.steps), 1, hardware)
        estimate = estimate_training(model, data.batches(number), 1)
        seconds = estimate["seconds_per_step"]
        tokens = steps * phase.batch_size * phase.sequence_length
        stages.append(estimate | {"steps": steps, "tokens": tokens, "seconds": steps * seconds})
    total = {name: sum(stage[name] for stage in stages) for name in ("steps", "tokens", "seconds")}
    total["memory_bytes"] = max(stage["memory_bytes"] for stage in stages)
    if len(stages) > 1:
        total |= {"stages": stages, "seconds_per_step": total["seconds"] / max(1, total["steps"])}
    return sequences | stages[0] | total
