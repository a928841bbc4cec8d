"""The course of a pre-training: data, model, training, evaluation, saving."""

import contextlib
import functools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras

from kbert.corpus.text_records import records_place
from kbert.inspection.board.tensor_board import log_directory
from kbert.inspection.examples.masked_examples import MaskedExamples
from kbert.keras_compat import seeded
from kbert.models.copies import copy_model
from kbert.models.quantized_layers import check_not_quantized
from kbert.optim.make_optimizer import make_optimizer
from kbert.optim.schedule import WarmupLinearDecay
from kbert.optim.warmup_stable_decay import WarmupStableDecay
from kbert.options import Arguments
from kbert.pipelines.settings import ModelSettings
from kbert.pretraining.run.phases import count_steps, first_steps
from kbert.pretraining.run.pretrain import PretrainingRun
from kbert.pretraining.run.pretraining_settings import PretrainingSettings, check_paths, corpus_source
from kbert.pretraining.run.run import Run
from kbert.pretraining.run.stored_batches import StoredBatches
from kbert.training.callbacks import callback_list
from kbert.training.dev_scoring import DevScoring
from kbert.training.dry_run import estimate_training
from kbert.training.exact_resume import ExactResume
from kbert.training.hardware import Hardware, check_accumulation, choose_hardware
from kbert.training.jax_devices import check_divides
from kbert.training.logs import readable_logs, updates_done
from kbert.training.loop import train
from kbert.training.made_by import note_origin
from kbert.training.memory import check_batch_memory
from kbert.training.run_directory import open_run
from kbert.training.run_log import RunLog, training_minutes
from kbert.training.workers import message_of_first
from kbert.weights.report import log_dropout

if TYPE_CHECKING:
    from kbert.models.pretrainer import BertPretrainer
    from kbert.pretraining.run.corpus_data import CorpusData


_LOGGER = logging.getLogger("kbert")
_INPUTS = ("corpus_or_records", "vocabulary", "init", "names")
_CHECKPOINT_EVERY = 500  # steps
_LOG_EVERY = 100
_DECAY_FRACTION = 0.2  # of a run with a stable rate: the end, in which it falls to 0


def run_pretraining(asked: Arguments) -> PretrainingRun:
    """Trains as was asked for; `kbert.pretrain` explains the arguments."""
    source = corpus_source(asked.corpus_or_records)
    settings = PretrainingSettings(asked, source)
    check_paths(source)
    bookkeeping = asked.bookkeeping
    log_dir = log_directory("pretrain", bookkeeping.log_dir, asked.output, bookkeeping.profile)
    callbacks = callback_list("pretrain", bookkeeping.callbacks, has_own_rate=True)
    checkpoint_every = bookkeeping.checkpoint_every or _CHECKPOINT_EVERY
    _check_kept(asked, settings)
    hardware = choose_hardware(
        settings.strategy, settings.precision, settings.xla, settings.logical_cpus, source=settings.init
    )
    check_run(settings, hardware)
    stages = settings.stages()
    # Phases, a ramp and hours are fractions of the run: of a longer one the steps done would have been others.
    is_extendable = settings.hours is None and len(stages) == 1
    longer_schedule = make_schedule if is_extendable else None
    data = _open_data(settings)
    with seeded(settings.seed):
        model = _for_plain_rows(data.starting_model(hardware, keep_given=asked.dry_run), hardware)
    check_not_quantized(model)
    directory = None
    with contextlib.ExitStack() as stack:
        if asked.output is not None and not asked.dry_run:
            directory = open_run(
                asked.output,
                settings.to_dict(),
                bookkeeping.overwrite,
                hardware,
                inputs=settings.inputs(asked.output),
                recipe="kbert.pretrain",
                schedule=longer_schedule,
                decided=["packed", "steps"],
            )
        run = Run(directory, log_dir, hardware.is_chief)
        place = stack.enter_context(records_place(run.path))
        with contextlib.nullcontext() if directory is None else directory.beginning():
            if settings.reads_text:
                data.write_records(place, hardware, run.path, asked.dry_run)
            data.choose_packing()
            settings = data.settings  # with what the data decided
            if settings.steps is None:
                steps = None if directory is None else directory.settings["steps"]
                settings = data.settings = settings.with_steps(steps or steps_of_hours(data, model, hardware))
            if settings.rematerialize is not None:
                for block in model.encoder.blocks:
                    block.rematerialize = settings.rematerialize
            with hardware.scope():
                trained = model_of_rows(model, settings)
            compile_models(trained, model, settings, hardware)
            for stage in stages:
                check_batch_memory(trained, stage.batch_size, stage.sequence_length)
            evaluations = data.evaluations()
            model_settings = ModelSettings(
                task=model.task, sequence_length=settings.sequence_length, tokenizer=data.tokenizer_settings
            )
            if asked.dry_run:
                metrics = estimate_pretraining(data, trained, hardware)
                return PretrainingRun(metrics, [], model, data.tokenizer, model_settings)
            _LOGGER.info("%s", hardware.describe())
            evaluation = evaluations[stages[-1].phase]
            real_fractions, about_data, corpus_tokens = data.describe(evaluation)
            if directory is not None:
                directory.decide(packed=settings.packed, steps=settings.steps)
        _LOGGER.info("%s", describe_plan(settings, model, real_fractions, corpus_tokens))
        if settings.init is not None:
            log_dropout(model.config, settings.init, settings.dropout)
        run.describe_model(model, model_settings, data.vocabulary)
        shown = []
        if log_dir is not None:
            batch = next(iter(evaluations[stages[0].phase]))
            hyperparameters = settings.to_dict() | model.config.to_dict() | {"parameters": model.count_params()}
            run.show(hyperparameters, data.baseline(about_data), batch, bookkeeping.profile)
            if run.callbacks and not settings.left_to_right:  # which has no masks to show
                shown = [MaskedExamples(data.vocabulary, batch, log_dir)]
        starts = first_steps(stages, settings.steps, settings.steps_per_execution)
        held_out = HeldOut(trained, [evaluations[stage.phase] for stage in stages])
        due = {*range(checkpoint_every, settings.steps, checkpoint_every), *starts[1:], settings.steps}
        if settings.init is not None:
            due.add(0)
        scoring = DevScoring(held_out, "loss", due, keep="last", lower_is_better=True, callbacks=shown)
        log = RunLog(run.path)
        resume = None
        if directory is not None:
            resume = ExactResume(
                run.path,
                trained,
                every=checkpoint_every,
                keep_every=bookkeeping.keep_every,
                keep_step=(lambda: best_step(scoring.records)) if bookkeeping.keep_best else None,
                callbacks=[scoring],
            )
        done = 0 if resume is None else resume.step
        callbacks = [scoring, log, *run.callbacks, *callbacks, *([] if resume is None else [resume])]
        log_every = bookkeeping.log_every or _LOG_EVERY
        for number, (stage, end) in enumerate(zip(stages, [*starts[1:], settings.steps], strict=True)):
            if done >= end:
                continue
            log.real_tokens = real_fractions[stage.phase] * stage.batch_size * stage.sequence_length
            held_out.begin(number)
            make_dataset = functools.partial(data.from_step, starts=starts[: number + 1])
            done = train(
                trained, make_dataset, settings.steps, start=done, end=end, log_every=log_every, callbacks=callbacks
            )
            if done < end:  # a callback stopped it
                break

        # What came out
        scores = readable_logs(trained.evaluate(evaluation, return_dict=True, verbose=0), trained)
        first, last = (log.records[0], log.records[-1]) if log.records else ({}, {})  # none but on the chief
        metrics = scores | about_data
        metrics["epochs"] = count_epochs(settings, real_fractions, corpus_tokens, last.get("step"))
        metrics["steps"] = last.get("step", settings.steps)
        metrics["parameters"] = trained.count_params()
        metrics["tokens_per_second"] = last.get("tokens_per_second")
        metrics["minutes"] = training_minutes(log.records)
        if first.get("step") == 0:
            metrics["before"] = {name.removeprefix("val_"): value for name, value in first.items() if name != "step"}
        best = best_step(scoring.records) if bookkeeping.keep_best else None
        if best is not None:
            metrics["best_step"] = best
        run.finish(
            metrics,
            scores,
            metrics["steps"],
            functools.partial(data.save, model, model_settings),
            keep_checkpoint=is_extendable and settings.schedule == "constant",
            keep_every=bookkeeping.keep_every,
            keep_step=best,
        )
        note_origin(model, directory, metrics, "kbert.pretrain", settings.to_dict(), _INPUTS)
        return PretrainingRun(metrics, log.records, model, data.tokenizer, model_settings, run.path)


class HeldOut:
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
        is_first = updates_done(self.model.optimizer) == 0
        batches = self.batches[-1 if is_first else self.stage]
        scores = readable_logs(self.model.evaluate(batches, return_dict=True, verbose=0), self.model)
        if is_first and len(self.batches) > 1:
            self.model.make_test_function(force=True)
        return scores


def best_step(records: Sequence[dict]) -> int | None:
    """The step with the lowest held-out loss; None: none was measured after the first step."""
    losses = {record["step"]: record["loss"] for record in records if record["step"]}
    return min(losses, key=losses.get, default=None)


def _check_kept(asked, settings) -> None:
    keep_every = asked.bookkeeping.keep_every
    if keep_every is not None and asked.output is None and not asked.dry_run:
        raise ValueError(f"pretrain: `keep_every` needs `output`. Received: keep_every={keep_every!r} and output=None")
    if asked.bookkeeping.keep_best and (asked.output is None or settings.phases is not None):
        received = f"output={asked.output!r} and phases={settings.phases!r}"
        raise ValueError(f"pretrain: `keep_best` needs `output` and rows of one length. Received: {received}")


def check_run(settings: PretrainingSettings, hardware: Hardware) -> None:
    """Raises ValueError if the hardware does not go with the settings."""
    sizes = [stage.batch_size for stage in settings.stages()]
    check_accumulation(settings.accumulate, hardware, sizes)
    for rows in (*sizes, *(phase.batch_size for phase in settings.all_phases())):  # of training, and of evaluation
        check_divides(rows)


def _open_data(settings):
    if settings.batches is not None:
        return StoredBatches(settings)
    # Not above: it loads TensorFlow, which a training on batches does not need.
    from kbert.pretraining.run.corpus_data import CorpusData

    return CorpusData(settings)


def _for_plain_rows(model: "BertPretrainer", hardware: Hardware) -> "BertPretrainer":
    """The model of the run: where `init` is for packed rows, a view that shares its layers."""
    if model.encoder.num_parts is None:
        return model
    with hardware.scope():
        view = model.with_parts(None)
    view.pretrained = model.pretrained
    return view


def model_of_rows(model: "BertPretrainer", settings: PretrainingSettings) -> "BertPretrainer":
    """The `BertPretrainer` to train on the rows of these settings: the model, or a view that shares its layers."""
    wanted = settings.num_parts if settings.packed else None
    return model if model.encoder.num_parts == wanted else model.with_parts(wanted)


def make_schedule(settings: Mapping[str, Any]) -> keras.optimizers.schedules.LearningRateSchedule:
    """The learning rate schedule of these settings: that of appendix A.2, or with a constant rate after the warm-up."""
    peak = settings["learning_rate"]
    warmup = settings["warmup_steps"]
    steps = settings["steps"]
    if settings["schedule"] == "linear":
        return WarmupLinearDecay(peak, warmup, steps)
    if settings["schedule"] == "constant":
        return WarmupStableDecay(peak, warmup)
    return WarmupStableDecay(peak, warmup, steps, min(math.ceil(_DECAY_FRACTION * steps), steps - warmup))


def compile_models(
    trained: "BertPretrainer",
    model: "BertPretrainer",
    settings: PretrainingSettings,
    hardware: Hardware,
    steps_per_execution: int | None = None,
) -> None:
    """Appendix A.2: Adam with a linear warm-up and decay, weight decay 0.01, clipping at 1.0; or what was asked for.

    `trained` is `model` or a view of it for packed rows; both have the same optimizer.
    """
    arguments = {
        "micro_batches": settings.accumulate,
        "jit_compile": hardware.jit_compile,
        "steps_per_execution": steps_per_execution or settings.steps_per_execution,
    }
    with hardware.scope():
        trained.compile(make_optimizer(settings, make_schedule(vars(settings))), **arguments)
        if model is not trained:
            model.compile(trained.optimizer, **arguments)  # with its loss scale, if there is one


def describe_plan(
    settings: PretrainingSettings, model: "BertPretrainer", real_fractions: Sequence[float], corpus_tokens: int | None
) -> str:
    """Lines on the size of the model and of the run; `real_fractions` of every phase, `corpus_tokens` of an epoch."""
    lines = [f"{model.count_params():,} parameters"]
    real = 0.0
    tokens = 0
    for stage, steps in zip(settings.stages(), stage_steps(settings), strict=True):
        lines.append(f"{steps:,} steps of {stage.batch_size:,} rows of {stage.sequence_length} tokens")
        of_stage = steps * stage.batch_size * stage.sequence_length
        tokens += of_stage
        real += of_stage * real_fractions[stage.phase]
    epochs = f", {real / corpus_tokens:.2f} epochs" if corpus_tokens else ""
    lines.append(f"{tokens:,} tokens with padding, about {real:,.0f} without{epochs}")
    return "\n".join(lines)


def count_epochs(
    settings: PretrainingSettings, real_fractions: Sequence[float], corpus_tokens: int | None, done: int | None = None
) -> float | None:
    """About how many epochs the `done` steps were; None where the corpus was not counted."""
    if not corpus_tokens:
        return None
    left = settings.steps if done is None else done
    tokens = 0.0
    for stage, steps in zip(settings.stages(), stage_steps(settings), strict=True):
        steps = min(steps, left)
        left -= steps
        tokens += steps * stage.batch_size * stage.sequence_length * real_fractions[stage.phase]
    return tokens / corpus_tokens


def stage_steps(settings: PretrainingSettings) -> list[int]:
    """The number of steps of every stage."""
    return count_steps(settings.stages(), settings.steps, settings.steps_per_execution)


def steps_of_hours(data: "CorpusData | StoredBatches", model: "BertPretrainer", hardware: Hardware) -> int:
    """How many steps there is time for; a copy of the model makes a few of each stage, compilation not counted."""
    settings = data.settings.with_steps(
        10**6 * data.settings.steps_per_execution
    )  # for a schedule; it does not change the time of a step
    seconds = start = 0.0
    for stage in settings.stages():
        with hardware.scope():
            copy = model_of_rows(copy_model(model), settings)
        compile_models(copy, copy, settings, hardware, steps_per_execution=1)
        seconds += (stage.end - start) * estimate_training(copy, data.batches(stage), 1)["seconds_per_step"]
        start = stage.end
    execution = settings.steps_per_execution
    steps = max(1, int(3600 * data.settings.hours / seconds / execution)) * execution
    if hardware.name == "multiworker":
        steps = int(message_of_first(hardware.strategy, str(steps)))
    _LOGGER.info("%.3f s a step: %g hours are enough for %s steps", seconds, data.settings.hours, f"{steps:,}")
    return steps


def estimate_pretraining(data: "CorpusData | StoredBatches", model: "BertPretrainer", hardware: Hardware) -> dict:
    """The metrics of a dry run, which compiles the model and trains it for a few steps.

    What `data.count_sequences` found, and the entries of `estimate_training` over all stages: sums of `steps`, `tokens`
    and `seconds`, the largest `memory_bytes`, the mean `seconds_per_step`; of several stages also `stages`, a list of
    them.
    """
    settings = data.settings
    sequences = data.count_sequences()
    stages = []
    for stage, steps in zip(settings.stages(), stage_steps(settings), strict=True):
        compile_models(model, model, settings, hardware, steps_per_execution=1)
        estimate = estimate_training(model, data.batches(stage), 1)
        seconds = estimate["seconds_per_step"]
        tokens = steps * stage.batch_size * stage.sequence_length
        stages.append(estimate | {"steps": steps, "tokens": tokens, "seconds": steps * seconds})
    total = {name: sum(stage[name] for stage in stages) for name in ("steps", "tokens", "seconds")}
    total["memory_bytes"] = max(stage["memory_bytes"] for stage in stages)
    if len(stages) > 1:
        total |= {"stages": stages, "seconds_per_step": total["seconds"] / max(1, total["steps"])}
    return sequences | stages[0] | total
