"""The course of a pre-training: data, model, training, evaluation, saving."""

import dataclasses
import functools
import importlib.util
import logging
import os

import keras

from kbert.inspection.board.log_directory import log_directory
from kbert.inspection.board.tensor_board import TensorBoard
from kbert.inspection.examples.masked_examples import MaskedExamples
from kbert.models.quantized_layers import check_not_quantized
from kbert.options import Arguments
from kbert.pipelines.settings import ModelSettings
from kbert.pretraining.run.check_run import check_run
from kbert.pretraining.run.corpus_source import check_paths, corpus_source
from kbert.pretraining.run.estimate import count_epochs, describe_plan, estimate_pretraining
from kbert.pretraining.run.pretraining_optimizer import compile_models, make_clock_rate, make_schedule
from kbert.pretraining.run.pretraining_run import PretrainingRun, measure_run
from kbert.pretraining.run.pretraining_settings import PretrainingSettings
from kbert.pretraining.run.stored_batches import StoredBatches
from kbert.training.batch_memory import check_batch_memory
from kbert.training.callbacks import ConsoleProgress, callback_list
from kbert.training.forecast import Forecast
from kbert.training.hardware import choose_hardware
from kbert.training.history import best_step
from kbert.training.intervals import check_milestones, resolve_log_interval
from kbert.training.made_by import note_origin
from kbert.training.resume import fit_steps
from kbert.training.run_directory import check_output, open_run
from kbert.training.time_budget import TimeBudget
from kbert.weights.formats.google import has_slots, load_slots
from kbert.weights.source import CHECKPOINTS, local_source
from kbert.weights.step_checkpoint import write_description

_LOGGER = logging.getLogger("kbert")
_INPUTS = ("corpus_or_records", "vocabulary", "init", "names")
_CHECKPOINT_EVERY = 500  # steps


def run_pretraining(asked: Arguments) -> PretrainingRun:
    """Trains as was asked for; `kbert.pretrain` explains the arguments."""
    source = corpus_source(asked.corpus_or_records)
    settings = PretrainingSettings(asked, source)
    check_paths(source)
    bookkeeping, output, dry_run = asked.bookkeeping, asked.output, asked.dry_run
    logs = log_directory("pretrain", bookkeeping.log_dir, output, bookkeeping.profile)
    callbacks = callback_list("pretrain", bookkeeping.callbacks, has_own_rate=True)
    checkpoint_every = bookkeeping.checkpoint_every or _CHECKPOINT_EVERY
    log_every = resolve_log_interval("pretrain", checkpoint_every, bookkeeping.log_every)
    keep_every, keep_best = bookkeeping.keep_every, bookkeeping.keep_best
    check_milestones(keep_every, checkpoint_every)
    if keep_every is not None and output is None and not dry_run:
        raise ValueError(f"pretrain: `keep_every` needs `output`. Received: keep_every={keep_every!r} and output=None")
    if keep_best and (output is None or settings.phases is not None):
        received = f"output={output!r} and phases={settings.phases!r}"
        raise ValueError(f"pretrain: `keep_best` needs `output` and rows of one length. Received: {received}")
    hardware = choose_hardware(
        settings.strategy, settings.precision, settings.xla, settings.logical_cpus, source=settings.init
    )
    stages = settings.stages()
    check_run(settings, hardware, log_every, asked.rows.data_service)
    # Phases, a ramp and the clock are shares of the run: of a longer one the steps done would have been others.
    is_extendable = settings.hours is None and len(stages) == 1
    schedule = make_schedule if is_extendable else None
    # Before what takes long; of several workers the first tells the others in `open_run`.
    if output is not None and not asked.overwrite and not dry_run and hardware.name != "multiworker":
        check_output(output, settings.to_dict(), schedule, undecided=["packed"] if settings.packed is None else [])
    data = _open_data(settings, asked.rows.data_service)
    keras.utils.set_random_seed(settings.seed)
    model = data.starting_model(hardware, keep_given=dry_run)
    check_not_quantized(model)
    settings = data.settings
    with hardware.scope():
        trained = model_of_rows(model, settings)
    if settings.rematerialize is not None:
        for block in model.encoder.blocks:
            block.rematerialize = settings.rematerialize
    compile_models(trained, model, settings, hardware)
    for stage in stages:
        check_batch_memory(trained, stage.batch_size, stage.sequence_length)
    evaluations = data.evaluations()
    model_settings = ModelSettings(
        task=model.task, sequence_length=settings.sequence_length, tokenizer=data.tokenizer_settings
    )
    if dry_run:
        metrics = estimate_pretraining(data, trained, hardware)
        return PretrainingRun(metrics, [], model, data.tokenizer, model_settings)
    run = None
    if output is not None:
        run = open_run(
            output,
            settings.to_dict(),
            asked.overwrite,
            hardware,
            inputs=settings.inputs(),
            recipe="kbert.pretrain",
            schedule=schedule,
        )
    with hardware.scope():
        _load_moments(trained, settings)
    _LOGGER.info("%s", hardware.describe())
    evaluation = evaluations[stages[-1].phase]
    try:
        real, about_data, corpus_tokens = data.describe(evaluation)
    except Exception:  # after an empty or damaged corpus no files remain
        if run is not None and not run.resume:
            run.discard()
        raise
    _LOGGER.info("%s", describe_plan(settings, model, real, corpus_tokens))
    if run is not None and run.is_chief:
        write_description(run.path / CHECKPOINTS, model, model_settings, data.vocabulary)
    budget, forecast = None, []
    if settings.hours is not None:
        budget = TimeBudget(3600 * settings.hours, make_clock_rate(vars(settings)))
        tokens = stages[0].batch_size * stages[0].sequence_length
        forecast = [Forecast(budget, tokens, real[0], corpus_tokens)]
    windows = int(checkpoint_every) // log_every
    board, examples = [], []
    if logs is not None and importlib.util.find_spec("tensorboard") is None:  # TensorFlow brings it along
        _LOGGER.info("TensorBoard is not installed: there will be no logs for it.")
    elif logs is not None:
        shown = next(iter(evaluations[stages[0].phase]))
        about = settings.to_dict() | model.config.to_dict() | {"parameters": model.count_params()}
        board = [
            TensorBoard(
                logs,
                settings=about,
                baseline=data.baseline(about_data),
                batch=shown,
                profile=bookkeeping.profile,
                wait_for_finish=True,
            )
        ]
        if not settings.left_to_right:  # which has no masks to show
            examples = [MaskedExamples(data.vocabulary, shown, logs, every=windows)]
    history = fit_steps(
        trained,
        data.from_step,
        settings.steps,
        run.path if run else None,
        window=log_every,
        checkpoint_every=windows,
        keep_every=keep_every,
        keep_best=keep_best,
        validation_every=windows,
        validate_first=settings.init is not None,
        stages=[
            dataclasses.replace(stage, validation_data=evaluations[stage.phase], real_share=real[stage.phase])
            for stage in stages
        ],
        budget=budget,
        callbacks=[ConsoleProgress(), *forecast, *board, *examples, *callbacks],
    )
    epochs = count_epochs(settings, real, corpus_tokens, history[-1]["step"] if history else None)
    about_data = about_data | {"epochs": epochs}
    metrics = measure_run(trained, evaluation, history, settings.steps, board if hardware.is_chief else [], about_data)
    best = best_step(history) if keep_best else None
    if best is not None:
        metrics["best_step"] = best
    if run is not None:
        save = functools.partial(data.save, model, model_settings)
        keep_last = is_extendable and settings.schedule == "constant"
        run.finish(metrics, save, keep_checkpoint=keep_last, keep_every=keep_every, keep_step=best)
    note_origin(model, run, metrics, "kbert.pretrain", settings.to_dict(), _INPUTS)
    return PretrainingRun(metrics, history, model, data.tokenizer, model_settings, run.path if run else None)


def _open_data(settings, data_service):
    if settings.batches is not None:
        return StoredBatches(settings)
    # Not above: it loads TensorFlow, which a training on batches does not need.
    from kbert.pretraining.run.corpus_data import CorpusData

    return CorpusData(settings, data_service)


def model_of_rows(model, settings):
    """The `BertPretrainer` to train on the rows of these settings: the model, or a view that shares its layers."""
    wanted = settings.num_parts if settings.packed else None
    return model if model.encoder.num_parts == wanted else model.with_parts(wanted)


def _load_moments(model, settings):
    """Those of Google's checkpoint, if `init` is one that has them; the schedule is that of this run."""
    if not isinstance(settings.init, str | os.PathLike) or settings.size is not None or settings.optimizer != "adamw":
        return
    path = local_source(settings.init)
    # Bias correction would take moments of many steps for those of the first ones.
    if path is not None and not settings.bias_correction and has_slots(path, model):
        step = load_slots(model.optimizer, model, path, with_step=False)
        _LOGGER.info("%s: the optimizer goes on with the moments of step %s there", settings.init, f"{step:,}")
