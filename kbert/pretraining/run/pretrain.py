"""Pre-train BERT on text, records or batches: `kbert.pretrain`."""

import contextlib
import dataclasses
import functools
import inspect
import logging
import os
import pathlib
from collections.abc import Mapping, Sequence
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
from kbert.pretraining.run.options import RANDOM_NEXT_RATE, Execution, Masking, NewModel

if TYPE_CHECKING:
    import keras

    from kbert.aliases import Callbacks
    from kbert.models.pretrainer import BertPretrainer
    from kbert.pipelines.pipeline import Pipeline
    from kbert.pretraining.run.corpus_data import CorpusData
    from kbert.pretraining.run.course import Course, LearningRate
    from kbert.pretraining.run.source import DataReport, RowOptions
    from kbert.pretraining.run.starting_model import Start
    from kbert.pretraining.run.stored_batches import StoredBatches
    from kbert.training.hardware import Hardware
    from kbert.training.run_directory import RunDirectory
    from kbert.training.run_log import RunLog

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
    phases: Sequence[str | Sequence[int | float]] | None = None,
    sequence_length: Count | None = None,
    batch_size: Count = 32,
    batch_size_ramp: tuple[Count, NonzeroFraction] | str | None = None,
    learning_rate: Positive = 1e-4,
    schedule: Literal["linear", "stable", "constant"] = "linear",
    warmup_steps: Count | None = None,
    warmup_proportion: Fraction | None = None,
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
            time for are stored in settings.json; evaluating and saving come on top.
        phases: instead of `sequence_length`, parts of the run in order, each (sequence length, fraction of the steps),
            and optionally its own batch size and `max_predictions`: the paper's are [(128, 0.9), (512, 0.1)], on the
            command line 128:0.9 512:0.1.
        sequence_length: tokens per row. Defaults to 128.
        batch_size: sequences per update, over all replicas; the paper: 256.
        batch_size_ramp: (first batch size, fraction of the run in which it is doubled up to `batch_size`); on the
            command line 8:0.3.
        learning_rate: the peak.
        schedule: "linear", to 0 at the end, as in the paper; "stable": constant after the warm-up, and to 0 in the last
            fifth; "constant" after the warm-up: such a run keeps its last checkpoint, and the same call with more
            `steps` and the same `warmup_steps` extends it.
        warmup_steps: steps of rising learning rate. Defaults to a tenth of `steps`, at most 10,000.
        warmup_proportion: the same as a fraction of the run; `warmup_steps`, if given, counts.
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
    from kbert.keras_compat import seeded
    from kbert.pretraining.run.course import Course, LearningRate, plan_phases, read_ramp
    from kbert.pretraining.run.source import RowOptions, corpus_source, is_text, records_place
    from kbert.pretraining.run.starting_model import Start
    from kbert.training.callbacks import callback_list
    from kbert.training.hardware import choose_hardware
    from kbert.training.run_directory import open_run
    from kbert.weights.step_checkpoint import write_description
    from kbert.weights.step_paths import CHECKPOINTS

    _check_length(steps, hours, output, overwrite)
    corpus = corpus_source(corpus_or_records)
    rows = RowOptions(
        mask_rate=mask_rate,
        whole_word=whole_word,
        masking=masking,
        next_sentence=next_sentence,
        random_next_rate=random_next_rate,
        left_to_right=left_to_right,
        packed=packed,
        fill_rows=fill_rows,
        held_out=held_out,
        evaluation_batches=evaluation_batches,
    )
    planned = plan_phases(phases, sequence_length, batch_size, masking.max_predictions, mask_rate, left_to_right)
    course = Course(planned, read_ramp(batch_size_ramp), steps, execution.steps_per_execution)
    rate = LearningRate(learning_rate, schedule, warmup_steps, warmup_proportion)
    start = Start(init, size, vocabulary, lowercase, dropout, new_model, seed)
    data = _open_data(corpus, rows, course, start, rate, hours, optimization.accumulate)
    course = data.course
    hardware = choose_hardware(strategy, precision, execution.xla, execution.logical_cpus, source=init)
    hardware.check_batch_sizes(*[stage.batch_size for stage in course.stages], accumulate=optimization.accumulate)
    hardware.check_batch_sizes(*[phase.batch_size for phase in course.phases])  # of evaluation
    _check_kept(keep_every, keep_best, course, output, dry_run)
    log_dir = log_directory("pretrain", log_dir, output, profile)
    callbacks = callback_list("pretrain", callbacks, has_own_rate=True)

    with seeded(seed):
        model = _for_plain_rows(data.starting_model(start, hardware, keep_given=dry_run), hardware, execution)
    if not dry_run:
        settings |= _resolved_settings(corpus, data, start, rate, hours, phases is None)
    extendable = hours is None and len(course.stages) == 1 and schedule == "constant"  # so far the steps are the same
    run = None
    if output is not None and not dry_run:
        inputs = _inputs(corpus, output, vocabulary, init, masking.names)
        rule = {"extendable": extendable, "decided": ["packed", "steps"]}
        run = open_run(output, settings, overwrite, hardware, inputs=inputs, recipe="kbert.pretrain", **rule)
    path = None if run is None else run.path
    with records_place(path) as place:
        with contextlib.nullcontext() if run is None else run.beginning():
            if is_text(corpus):
                data.write_records(place, hardware, path, dry_run)
            data.packed = data.packed if run is None else run.settings["packed"]  # a resumed run has decided
            settings["packed"] = data.choose_packing()
            if course.steps is None:
                known = None if run is None else run.settings["steps"]
                known = known or _steps_of_hours(hours, data, model, optimization, hardware, seed)
                course = data.course = dataclasses.replace(course, steps=known)
            trained = _view(model, data.num_parts, hardware)
            _compile(trained, model, optimization, rate.of_run(course.steps), execution.steps_per_execution, hardware)
            _check_memory(trained, course)
            evaluations = data.evaluations()
            if dry_run:
                estimate = _estimate(data, trained, optimization, rate, hardware)
                return PretrainingRun(estimate, [], model, data.tokenizer, _model_settings(data, model))
            about_data = data.describe(evaluations[course.stages[-1].phase])
            if run is not None:
                run.decide(packed=settings["packed"], steps=course.steps)
        _log_plan(hardware, course, model, about_data, start)
        board, examples = _show(log_dir, settings, data, model, evaluations, about_data, profile)
        if run is not None and run.is_chief:  # without it checkpoints are not models
            write_description(path / CHECKPOINTS, model, _model_settings(data, model), data.vocabulary)
        callbacks = callbacks if board is None else [board, *callbacks]
        every = {"checkpoint_every": checkpoint_every, "log_every": log_every, "keep_every": keep_every}
        every |= {"keep_best": keep_best, "validate_first": init is not None}
        log, best = _train(trained, data, evaluations, about_data, run, examples, callbacks, **every)
        scores = _scores(trained, evaluations[course.stages[-1].phase])
        metrics = scores | _metrics(log, course, trained, about_data, best)
        keep = {"keep_checkpoint": extendable, "keep_every": keep_every, "keep_step": best}
        _finish(run, board, hardware, model, data, metrics, scores, settings | {"steps": course.steps}, **keep)
    return PretrainingRun(metrics, log.records, model, data.tokenizer, _model_settings(data, model), path)


def _check_length(steps: int | None, hours: float | None, output: PathLike | None, overwrite: bool) -> None:
    """Raises ValueError for `steps` and `hours` of a new run; a run of hours is resumed with its settings, too."""
    from kbert.training.made_by import SETTINGS

    is_new = output is None or overwrite or not (pathlib.Path(output) / SETTINGS).exists()
    if is_new and steps is not None and hours is not None:
        raise ValueError(
            f"pretrain: expected either `steps` or `hours`. Received: {steps} and {hours}. A run of hours has "
            "both in its settings.json: remove one of them for another run"
        )


def _open_data(
    corpus: Any,
    rows: "RowOptions",
    course: "Course",
    start: "Start",
    rate: "LearningRate",
    hours: float | None,
    parts: int,
) -> "CorpusData | StoredBatches":
    """The corpus of a run. Stored batches have decided how rows are made, and have a course of their own."""
    from kbert.corpus.records_manifest import is_records
    from kbert.pretraining.run.source import check_paths, is_batches, is_text
    from kbert.pretraining.run.starting_model import check_new_model, check_start

    check_new_model(start)
    if is_batches(corpus):
        from kbert.pretraining.run.stored_batches import StoredBatches

        data = StoredBatches(corpus, course)
        _check_decided(data, rows, course, start, hours)
        return data
    if course.steps is None and hours is None:
        raise ValueError("pretrain: expected either `steps` or `hours`. Received: neither")
    if course.steps is not None:
        rate.warmup(course.steps)  # an error if it is longer
    check_start(start, is_text(corpus), is_records(corpus))
    check_paths(corpus)
    # Not above: it loads TensorFlow, which a training on batches does not need.
    from kbert.pretraining.run.corpus_data import CorpusData

    return CorpusData(corpus, rows, course, start.seed, parts)


def _check_decided(data, rows, course, start, hours):
    """Raises ValueError for arguments that stored batches would have to be written again for."""
    from kbert.pretraining.run.course import SEQUENCE_LENGTH

    given = {field.name: getattr(rows, field.name) for field in dataclasses.fields(rows)}
    given |= {"vocabulary": start.vocabulary, "lowercase": start.lowercase, "hours": hours}
    given |= {"batch_size_ramp": course.ramp, "batch_size": course.phases[0].batch_size}
    if course.sequence_length != SEQUENCE_LENGTH:
        given["sequence_length"] = course.sequence_length
    if len(course.phases) > 1:
        given["phases"] = course.phases
    parameters = inspect.signature(pretrain).parameters
    decided = {name: (parameters[name].default, data.decided.get(name)) for name in given}
    changed = {name: value for name, value in given.items() if value not in decided[name]}
    if changed:
        raise ValueError(f"pretrain: batches were drawn and masked when they were written. Received: {changed} as well")


def _check_kept(keep_every, keep_best, course, output, dry_run):
    if keep_every is not None and output is None and not dry_run:
        raise ValueError(f"pretrain: `keep_every` needs `output`. Received: keep_every={keep_every!r} and output=None")
    if keep_best and (output is None or len(course.phases) > 1):
        received = f"output={output!r} and {len(course.phases)} phases"
        raise ValueError(f"pretrain: `keep_best` needs `output` and rows of one length. Received: {received}")


def _resolved_settings(corpus, data, start, rate, hours, has_one_length) -> dict[str, Any]:
    """What settings.json has of some arguments: objects are identified by the hash of their content."""
    from kbert.options import to_json
    from kbert.training.made_by import identify_model, identify_source, identify_vocabulary

    course = data.course
    settings = {
        "corpus_or_records": identify_source(corpus),
        "vocabulary": identify_vocabulary(start.vocabulary),
        "init": identify_model(start.init),
        "steps": course.steps,
        "batch_size": course.phases[0].batch_size if has_one_length else None,
        "batch_size_ramp": course.ramp,
        "sequence_length": course.sequence_length,
        "held_out": data.held_out,
        "packed": data.packed,
    }
    if has_one_length:
        settings["max_predictions"] = course.phases[0].max_predictions
    else:
        settings["phases"] = course.phases
        del settings["batch_size"]
    if hours is None:  # with warm-up steps, not the fraction, a run can be extended; one of hours cannot
        settings |= {"warmup_steps": rate.warmup(course.steps), "warmup_proportion": None}
    return to_json(settings)


def _inputs(corpus, output, vocabulary, init, names) -> dict[str, Any]:
    """The files that the run reads, by argument, as `open_run` takes them."""
    from kbert.pretraining.run.source import input_files

    inputs = {"vocabulary": vocabulary, "init": init, "names": names}
    inputs = {name: value for name, value in inputs.items() if isinstance(value, str | os.PathLike)}
    files = input_files(corpus, output)
    return inputs if files is None else {"corpus_or_records": files} | inputs


def _model_settings(data, model):
    from kbert.pipelines.settings import ModelSettings

    return ModelSettings(
        task=model.task, sequence_length=data.course.sequence_length, tokenizer=data.tokenizer_settings
    )


def _for_plain_rows(model: "BertPretrainer", hardware: "Hardware", execution: Execution) -> "BertPretrainer":
    """The model of the run: where `init` is for packed rows, a view that shares its layers."""
    from kbert.models.quantized_layers import check_not_quantized

    check_not_quantized(model)
    if execution.rematerialize is not None:
        for block in model.encoder.blocks:
            block.rematerialize = execution.rematerialize
    view = _view(model, None, hardware)
    view.pretrained = model.pretrained
    return view


def _view(model: "BertPretrainer", num_parts: int | None, hardware: "Hardware") -> "BertPretrainer":
    """The model for rows with so many parts: itself, or a view that shares its layers."""
    if model.encoder.num_parts == num_parts:
        return model
    with hardware.scope():
        return model.with_parts(num_parts)


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

    for stage in course.stages:
        check_batch_memory(model, stage.batch_size, stage.sequence_length)


def _steps_of_hours(hours, data, model, optimization, hardware, seed) -> int:
    """The steps there is time for.

    A copy of the model makes some steps of each stage: weights, optimizer, dropout and data of the run are untouched.
    """
    from kbert.keras_compat import seeded
    from kbert.models.copies import copy_model
    from kbert.training.dry_run import mean_seconds_per_step

    course = data.course
    seconds = begun = 0.0
    for stage in course.stages:
        with seeded(seed), hardware.scope():
            copy = _view(copy_model(model), data.num_parts, hardware)
        _compile(copy, copy, optimization, 0.0, 1, hardware)
        measured = mean_seconds_per_step(copy, data.batches(stage), _TIMED_STEPS)
        _LOGGER.info("%.3f s a step of %s rows of %s tokens", measured, stage.batch_size, stage.sequence_length)
        seconds += (stage.end - begun) * measured
        begun = stage.end
    steps = max(1, int(3600 * hours / seconds / course.multiple)) * course.multiple
    steps = int(hardware.of_chief(str(steps)))
    _LOGGER.info("%g hours are enough for %s steps", hours, f"{steps:,}")
    return steps


def _log_plan(hardware, course, model, about_data, start) -> None:
    """Logs the hardware, and the size of the model and of the run."""
    from kbert.weights.report import log_dropout

    _LOGGER.info("%s", hardware.describe())
    lines = [f"{model.count_params():,} parameters"]
    real = tokens = 0
    for stage, steps in zip(course.stages, course.stage_steps, strict=True):
        lines.append(f"{steps:,} steps of {stage.batch_size:,} rows of {stage.sequence_length} tokens")
        of_stage = steps * stage.batch_size * stage.sequence_length
        tokens += of_stage
        real += of_stage * about_data.real_fractions[stage.phase]
    epochs = f", {real / about_data.tokens:.2f} epochs" if about_data.tokens else ""
    lines.append(f"{tokens:,} tokens with padding, about {real:,.0f} without{epochs}")
    _LOGGER.info("%s", "\n".join(lines))
    if start.init is not None:
        log_dropout(model.config, start.init, start.dropout)


def _show(log_dir, settings, data, model, evaluations, about_data, profile) -> tuple:
    """The callback that writes the logs for TensorBoard or None, and a list of those that show predictions."""
    from kbert.inspection.board.tensor_board import run_board
    from kbert.inspection.examples.masked_examples import MaskedExamples

    if log_dir is None:
        return None, []
    batch = next(iter(evaluations[data.course.stages[0].phase]))
    shown = settings | model.config.to_dict() | {"parameters": model.count_params()}
    baseline = data.baseline(about_data.metrics)
    board = run_board(log_dir, settings=shown, baseline=baseline, batch=batch, profile=profile)
    has_masks = board is not None and not model.config.causal
    return board, [MaskedExamples(data.vocabulary, batch, log_dir)] if has_masks else []


def _train(
    trained: "BertPretrainer",
    data: "CorpusData | StoredBatches",
    evaluations: Mapping[int, Any],
    about_data: "DataReport",
    run: "RunDirectory | None",
    shown: "Sequence[keras.callbacks.Callback]",
    callbacks: "Sequence[keras.callbacks.Callback]",
    *,
    validate_first: bool,
    checkpoint_every: int,
    log_every: int,
    keep_every: int | None,
    keep_best: bool,
) -> "tuple[RunLog, int | None]":
    """Trains stage after stage with one optimizer; returns the log, and the best step with `keep_best`.

    `shown` are callbacks to which an evaluation is the end of an epoch.
    """
    from kbert.training.dev_scoring import DevScoring
    from kbert.training.exact_resume import ExactResume
    from kbert.training.loop import train
    from kbert.training.run_log import RunLog

    course = data.course
    held_out = _HeldOut(trained, [evaluations[stage.phase] for stage in course.stages])
    due = {*range(checkpoint_every, course.steps, checkpoint_every), *course.starts[1:], course.steps}
    due |= {0} if validate_first else set()
    scoring = DevScoring(held_out, "loss", due, keep="last", lower_is_better=True, callbacks=shown)
    log = RunLog(None if run is None else run.path)
    done = 0
    callbacks = [scoring, log, *callbacks]
    if run is not None:
        resume = ExactResume(
            run.path,
            trained,
            every=checkpoint_every,
            keep_every=keep_every,
            keep_step=(lambda: _best_step(scoring.records)) if keep_best else None,
            callbacks=callbacks,
        )
        done = resume.step
        callbacks.append(resume)
    for number, (stage, end) in enumerate(zip(course.stages, [*course.starts[1:], course.steps], strict=True)):
        if done >= end:
            continue
        log.real_tokens = about_data.real_fractions[stage.phase] * stage.batch_size * stage.sequence_length
        held_out.begin(number)
        batches = functools.partial(data.from_step, stage=number)
        done = train(trained, batches, course.steps, start=done, end=end, log_every=log_every, callbacks=callbacks)
        if done < end:  # a callback stopped it
            break
    return log, _best_step(scoring.records) if keep_best else None


def _scores(model, batches) -> dict[str, float]:
    from kbert.training.logs import readable_logs

    return readable_logs(model.evaluate(batches, return_dict=True, verbose=0), model)


def _metrics(log, course, model, about_data, best) -> dict[str, Any]:
    """What metrics.json has beside the scores."""
    from kbert.training.run_log import training_minutes

    first, last = (log.records[0], log.records[-1]) if log.records else ({}, {})  # none but on the chief
    done = last.get("step", course.steps)
    metrics = about_data.metrics | {
        "epochs": _count_epochs(course, about_data, done),
        "steps": done,
        "parameters": model.count_params(),
        "tokens_per_second": last.get("tokens_per_second"),
        "minutes": training_minutes(log.records),
    }
    if first.get("step") == 0:
        metrics["before"] = {name.removeprefix("val_"): value for name, value in first.items() if name != "step"}
    return metrics if best is None else metrics | {"best_step": best}


def _count_epochs(course, about_data, done) -> float | None:
    """About how many epochs the steps were; None if the corpus was not counted."""
    if not about_data.tokens:
        return None
    tokens = 0.0
    for stage, steps in zip(course.stages, course.stage_steps, strict=True):
        steps = min(steps, done)
        done -= steps
        tokens += steps * stage.batch_size * stage.sequence_length * about_data.real_fractions[stage.phase]
    return tokens / about_data.tokens


def _finish(run, board, hardware, model, data, metrics, scores, settings, **kept) -> None:
    """Completes the logs and the directory, and notes on the model how its weights were made."""
    from kbert.training.made_by import note_origin

    if board is not None and hardware.is_chief:
        board.finish({**scores, "minutes": metrics["minutes"]}, metrics["steps"])
    if run is not None:
        save = functools.partial(data.save, model, _model_settings(data, model))
        run.finish(metrics, save, **kept)
    note_origin(model, run, metrics, "kbert.pretrain", settings, ["corpus_or_records", "vocabulary", "init", "names"])


def _estimate(data, model, optimization, rate, hardware) -> dict:
    """The metrics of a dry run, which compiles the model and trains it for a few steps.

    What `data.count_sequences` found, and the entries of `estimate_training` over all stages: sums of `steps`, `tokens`
    and `seconds`, the largest `memory_bytes`, the mean `seconds_per_step`; of several stages also `stages`, a list of
    them.
    """
    from kbert.training.dry_run import estimate_training

    course = data.course
    sequences = data.count_sequences()
    stages = []
    for stage, steps in zip(course.stages, course.stage_steps, strict=True):
        _compile(model, model, optimization, rate.of_run(course.steps), 1, hardware)
        estimate = estimate_training(model, data.batches(stage), 1)
        seconds = estimate["seconds_per_step"]
        tokens = steps * stage.batch_size * stage.sequence_length
        stages.append(estimate | {"steps": steps, "tokens": tokens, "seconds": steps * seconds})
    total = {name: sum(stage[name] for stage in stages) for name in ("steps", "tokens", "seconds")}
    total["memory_bytes"] = max(stage["memory_bytes"] for stage in stages)
    if len(stages) > 1:
        total |= {"stages": stages, "seconds_per_step": total["seconds"] / max(1, total["steps"])}
    return sequences | stages[0] | total


class _HeldOut:
    """Scores on the held-out batches of the stage that a pre-training is in; before its first step, of the last."""

    def __init__(self, model: "BertPretrainer", batches: Sequence):
        self.model = model
        self.batches = batches  # of every stage
        self.stage = 0
        self._begun = False

    def begin(self, stage: int) -> None:
        """Says which stage begins, of another shape than the one before."""
        if self._begun:  # else Keras would trace one step for both shapes
            self.model.make_train_function(force=True)
            self.model.make_test_function(force=True)
        self._begun = True
        self.stage = stage

    def __call__(self) -> dict[str, float]:
        from kbert.training.logs import updates_done  # not above: it loads Keras

        is_first = updates_done(self.model.optimizer) == 0
        batches = self.batches[-1 if is_first else self.stage]
        scores = _scores(self.model, batches)
        if is_first and len(self.batches) > 1:
            self.model.make_test_function(force=True)
        return scores


def _best_step(records: Sequence[dict]) -> int | None:
    """The step with the lowest held-out loss; None: none was measured after the first step."""
    losses = {record["step"]: record["loss"] for record in records if record["step"]}
    return min(losses, key=losses.get, default=None)


def describe_scores(metrics: Mapping) -> str:
    """Loss and accuracy of masked tokens, and of next sentences where the run had them, for printing."""
    loss = f"loss {metrics['mlm_cross_entropy']:.3f}"
    accuracy = f"masked-LM accuracy {metrics['mlm_accuracy']:.1%}"
    pairs = f"next-sentence accuracy {metrics['nsp_accuracy']:.1%}" if "nsp_accuracy" in metrics else None
    if unigram := metrics.get("unigram"):  # of stored batches it is not known
        loss += f" (token frequencies alone: {unigram['cross_entropy']:.3f})"
        accuracy += f" (always the most frequent: {unigram['accuracy']:.1%})"
        pairs = pairs and f"{pairs} (always the more frequent label: {unigram['nsp_accuracy']:.1%})"
    return f"held-out masked tokens: {loss}, {accuracy}" + (f"\nheld-out pairs: {pairs}" if pairs else "")


def describe_estimate(estimate: Mapping) -> str:
    """What `kbert.pretrain(dry_run=True)` found, for printing."""
    from kbert.training.dry_run import format_estimate  # not above: it loads Keras

    if "sequences_per_epoch" not in estimate:  # of stored batches it is not known
        return format_estimate(estimate)
    count = f"{estimate['sequences_per_epoch']:,}" + ("" if estimate["sequences_are_all"] else " or more")
    return f"{count} sequences in an epoch\n{format_estimate(estimate)}"


def describe_run(run: PretrainingRun) -> str:
    """The scores of a `PretrainingRun`, and where its model and curves are, for printing."""
    return (
        f"\n{describe_scores(run.metrics)}\n{run.metrics['minutes']:.1f} minutes\n"
        f"The model is in {run.path / 'model'}, the curves in {run.path / 'logs'}\n"
        f"Next: kbert finetune classification --source {run.path} --train my.csv …"
    )
