"""The course of a pre-training: data, model, training, evaluation, saving."""

import contextlib
import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras

from kbert.corpus.text_records import records_place
from kbert.finetuning.run import Run
from kbert.inspection.board.tensor_board import log_directory
from kbert.inspection.examples.masked_examples import MaskedExamples
from kbert.keras_compat import seeded
from kbert.models.quantized_layers import check_not_quantized
from kbert.optim.make_optimizer import make_optimizer
from kbert.optim.schedule import WarmupLinearDecay
from kbert.optim.warmup_stable_decay import WarmupStableDecay
from kbert.options import Arguments
from kbert.pipelines.settings import ModelSettings
from kbert.pretraining.run.phases import count_steps
from kbert.pretraining.run.pretrain import PretrainingRun
from kbert.pretraining.run.pretraining_settings import PretrainingSettings, check_paths, corpus_source
from kbert.pretraining.run.stored_batches import StoredBatches
from kbert.training.callbacks import ConsoleProgress, callback_list
from kbert.training.dry_run import estimate_training
from kbert.training.hardware import Hardware, check_accumulation, choose_hardware
from kbert.training.intervals import check_milestones, resolve_log_interval
from kbert.training.jax_devices import check_divides
from kbert.training.logs import best_step, readable_logs, training_minutes
from kbert.training.made_by import note_origin
from kbert.training.memory import check_batch_memory
from kbert.training.resume import fit_steps
from kbert.training.run_directory import open_run
from kbert.training.time_budget import Forecast, TimeBudget
from kbert.weights.report import log_dropout

if TYPE_CHECKING:
    from kbert.models.pretrainer import BertPretrainer
    from kbert.pretraining.run.corpus_data import CorpusData


_LOGGER = logging.getLogger("kbert")
_INPUTS = ("corpus_or_records", "vocabulary", "init", "names")
_CHECKPOINT_EVERY = 500  # steps
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
    log_every = resolve_log_interval(checkpoint_every, bookkeeping.log_every)
    _check_kept(asked, settings, checkpoint_every)
    hardware = choose_hardware(
        settings.strategy, settings.precision, settings.xla, settings.logical_cpus, source=settings.init
    )
    check_run(settings, hardware, log_every)
    stages = settings.stages()
    # Phases, a ramp and the clock are fractions of the run: of a longer one the steps done would have been others.
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
                decided=["packed"],
            )
        run = Run(directory, log_dir, hardware.is_chief)
        place = stack.enter_context(records_place(run.path))
        with contextlib.nullcontext() if directory is None else directory.beginning():
            if settings.reads_text:
                data.write_records(place, hardware, run.path, asked.dry_run)
            data.choose_packing()
            settings = data.settings  # with what the data decided
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
                directory.decide(packed=settings.packed)
        _LOGGER.info("%s", describe_plan(settings, model, real_fractions, corpus_tokens))
        if settings.init is not None:
            log_dropout(model.config, settings.init, settings.dropout)
        run.describe_model(model, model_settings, data.vocabulary)
        windows = checkpoint_every // log_every
        if log_dir is not None:
            batch = next(iter(evaluations[stages[0].phase]))
            hyperparameters = settings.to_dict() | model.config.to_dict() | {"parameters": model.count_params()}
            examples = None
            if not settings.left_to_right:  # which has no masks to show
                examples = functools.partial(MaskedExamples, data.vocabulary, batch, every=windows)
            run.show(hyperparameters, data.baseline(about_data), batch, bookkeeping.profile, examples)
        budget = None
        if settings.hours is not None:
            budget = TimeBudget(3600 * settings.hours, make_clock_rate(vars(settings)))
            tokens = stages[0].batch_size * stages[0].sequence_length
            callbacks = [Forecast(budget, tokens, real_fractions[0], corpus_tokens), *callbacks]
        history = fit_steps(
            trained,
            data.from_step,
            settings.steps,
            run.path,
            window=log_every,
            checkpoint_every=windows,
            keep_every=bookkeeping.keep_every,
            keep_best=bookkeeping.keep_best,
            validation_every=windows,
            validate_first=settings.init is not None,
            stages=[
                dataclasses.replace(
                    stage, validation_data=evaluations[stage.phase], real_fraction=real_fractions[stage.phase]
                )
                for stage in stages
            ],
            budget=budget,
            callbacks=[ConsoleProgress(), *run.callbacks, *callbacks],
        )

        # What came out
        scores = readable_logs(trained.evaluate(evaluation, return_dict=True, verbose=0), trained)
        first, last = (history[0], history[-1]) if history else ({}, {})  # none but on the chief
        metrics = scores | about_data
        metrics["epochs"] = count_epochs(settings, real_fractions, corpus_tokens, last.get("step"))
        metrics["steps"] = last.get("step", settings.steps)
        metrics["parameters"] = trained.count_params()
        metrics["tokens_per_second"] = last.get("tokens_per_second")
        metrics["minutes"] = training_minutes(history)
        if first.get("step") == 0:
            metrics["before"] = {name.removeprefix("val_"): value for name, value in first.items() if name != "step"}
        best = best_step(history) if bookkeeping.keep_best else None
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
        return PretrainingRun(metrics, history, model, data.tokenizer, model_settings, run.path)


def _check_kept(asked, settings, checkpoint_every) -> None:
    keep_every = asked.bookkeeping.keep_every
    check_milestones(keep_every, checkpoint_every)
    if keep_every is not None and asked.output is None and not asked.dry_run:
        raise ValueError(f"pretrain: `keep_every` needs `output`. Received: keep_every={keep_every!r} and output=None")
    if asked.bookkeeping.keep_best and (asked.output is None or settings.phases is not None):
        received = f"output={asked.output!r} and phases={settings.phases!r}"
        raise ValueError(f"pretrain: `keep_best` needs `output` and rows of one length. Received: {received}")


def check_run(settings: PretrainingSettings, hardware: Hardware, log_every: int) -> None:
    """Raises ValueError if the hardware or the intervals do not go with the settings."""
    if settings.hours is not None and hardware.name == "multiworker":
        raise ValueError("pretrain: `hours` works on one machine only, as the clocks of several differ. Give `steps`.")
    if settings.hours is not None and keras.backend.backend() != "tensorflow":
        raise ValueError(
            "pretrain: `hours` needs the TensorFlow backend, as others keep the learning rate for a window of steps. "
            f"Give `steps`. Received: the backend {keras.backend.backend()}"
        )
    sizes = [stage.batch_size for stage in settings.stages()]
    check_accumulation(settings.accumulate, hardware, sizes)
    if log_every % settings.steps_per_execution:
        raise ValueError(
            "pretrain: --log-every (by default the divisor of --checkpoint-every nearest to 100) must be a multiple of "
            f"--steps-per-execution. Received: {log_every} and {settings.steps_per_execution}"
        )
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


def make_clock_rate(settings: Mapping[str, Any]) -> Callable[[float], float]:
    """The same as a function of the fraction of a run's time: warm-up and decay are fractions of it."""
    peak = settings["learning_rate"]
    warmup = settings["warmup_proportion"]
    decay = {"linear": 1.0, "constant": 0.0}.get(settings["schedule"], min(_DECAY_FRACTION, 1.0 - warmup))

    def rate(fraction):
        if fraction < warmup:
            return peak * fraction / warmup
        return peak * min(1.0, (1.0 - fraction) / decay) if decay else peak

    return rate


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
    by_name = vars(settings)
    with hardware.scope():
        rate = make_schedule(by_name) if settings.hours is None else make_clock_rate(by_name)(0.0)
        trained.compile(make_optimizer(settings, rate), **arguments)
        if model is not trained:
            model.compile(trained.optimizer, **arguments)  # with its loss scale, if there is one


def describe_plan(
    settings: PretrainingSettings, model: "BertPretrainer", real_fractions: Sequence[float], corpus_tokens: int | None
) -> str:
    """Lines on the size of the model and of the run; `real_fractions` of every phase, `corpus_tokens` of an epoch."""
    lines = [f"{model.count_params():,} parameters"]
    start = real = 0.0
    tokens = 0
    if settings.hours is not None:
        lines.append(f"{settings.hours:g} hours; the first steps will tell how many fit")
    for stage, steps in zip(settings.stages(), stage_steps(settings), strict=True):
        shape = f"{stage.batch_size:,} rows of {stage.sequence_length} tokens"
        if steps is None:
            lines.append(f"from {start:.1%} to {stage.end:.1%} of the time steps of {shape}")
        else:
            lines.append(f"{steps:,} steps of {shape}")
            of_stage = steps * stage.batch_size * stage.sequence_length
            tokens += of_stage
            real += of_stage * real_fractions[stage.phase]
        start = stage.end
    if tokens:
        epochs = f", {real / corpus_tokens:.2f} epochs" if corpus_tokens else ""
        lines.append(f"{tokens:,} tokens with padding, about {real:,.0f} without{epochs}")
    return "\n".join(lines)


def count_epochs(
    settings: PretrainingSettings, real_fractions: Sequence[float], corpus_tokens: int | None, done: int | None = None
) -> float | None:
    """About how many epochs the `done` steps were; None where the clock ends a run or the corpus was not counted."""
    if settings.hours is not None or not corpus_tokens:
        return None
    left = settings.steps if done is None else done
    tokens = 0.0
    for stage, steps in zip(settings.stages(), stage_steps(settings), strict=True):
        steps = min(steps, left)
        left -= steps
        tokens += steps * stage.batch_size * stage.sequence_length * real_fractions[stage.phase]
    return tokens / corpus_tokens


def stage_steps(settings: PretrainingSettings) -> list[int | None]:
    """The number of steps of every stage; None for those that the clock ends."""
    stages = settings.stages()
    if settings.hours is not None:
        return [None] * len(stages)
    return count_steps(stages, settings.steps, settings.steps_per_execution)


def estimate_pretraining(data: "CorpusData | StoredBatches", model: "BertPretrainer", hardware: Hardware) -> dict:
    """The metrics of a dry run, which compiles the model and trains it for a few steps.

    What `data.count_sequences` found, and the entries of `estimate_training` over all stages: sums of `steps`, `tokens`
    and `seconds`, the largest `memory_bytes`, the mean `seconds_per_step`; of several stages also `stages`, a list of
    them.
    """
    settings = data.settings
    sequences = data.count_sequences()
    stages = []
    start = 0.0
    for stage, steps in zip(settings.stages(), stage_steps(settings), strict=True):
        compile_models(model, model, settings, hardware, steps_per_execution=1)
        estimate = estimate_training(model, data.batches(stage), 1)
        seconds = estimate["seconds_per_step"]
        if steps is None:
            steps = int(3600 * settings.hours * (stage.end - start) / seconds)
        tokens = steps * stage.batch_size * stage.sequence_length
        stages.append(estimate | {"steps": steps, "tokens": tokens, "seconds": steps * seconds})
        start = stage.end
    total = {name: sum(stage[name] for stage in stages) for name in ("steps", "tokens", "seconds")}
    total["memory_bytes"] = max(stage["memory_bytes"] for stage in stages)
    if len(stages) > 1:
        total |= {"stages": stages, "seconds_per_step": total["seconds"] / max(1, total["steps"])}
    return sequences | stages[0] | total
