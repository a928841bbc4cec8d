"""The course of a pre-training: data, model, training, evaluation, saving."""

import logging
import pathlib
import shutil
import time

import keras

from kbert.inspection.masked_examples import MaskedExamples
from kbert.pipelines.settings import ModelSettings
from kbert.tasks.pretraining.pretraining_data import describe_data, make_dataset
from kbert.tasks.pretraining.pretraining_optimizer import compile_model, make_schedule
from kbert.tasks.pretraining.pretraining_run import PretrainingRun
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


def run_pretraining(
    settings, *, checkpoint_every, log_every, callbacks, log_dir, output, overwrite, dry_run
) -> PretrainingRun:
    """Trains as the settings say; `kbert.pretrain` explains the arguments.

    Args:
        settings: `PretrainingSettings`.
        checkpoint_every, log_every, callbacks, log_dir, output, overwrite, dry_run: of `kbert.pretrain`.

    Raises:
        As `kbert.pretrain`.
    """
    start = time.perf_counter()
    log_every = log_every or log_interval(checkpoint_every, _LOG_EVERY)
    check_intervals(checkpoint_every, log_every)
    hardware = choose_hardware(settings.strategy, settings.precision, logical_cpus=settings.logical_cpus)
    keras.utils.set_random_seed(settings.seed)
    model, tokenizer = starting_model(settings, hardware)
    check_batch_memory(model, settings.batch_size, settings.sequence_length)
    evaluation = make_dataset(settings, tokenizer, evaluation=True, batches=settings.evaluation_batches)
    if dry_run:
        compile_model(model, settings, hardware)
        sequences, complete = count_sequences(make_dataset(settings, tokenizer, epochs=1))
        estimates = estimate_training(model, make_dataset(settings, tokenizer), settings.steps)
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
            schedule=make_schedule,
        )
    _LOGGER.info("%s", hardware.describe())
    try:
        statistics, unigram = describe_data(settings, tokenizer, evaluation)
    except Exception:  # after an empty or damaged corpus no files remain
        if run is not None and run.is_chief and not run.resume:
            shutil.rmtree(run.path)
        raise
    compile_model(model, settings, hardware)
    logs = pathlib.Path(log_dir) if log_dir else run.path / "logs" if run else None
    windows = checkpoint_every // log_every
    history = fit_steps(
        model,
        lambda start_step: make_dataset(settings, tokenizer, start_step=start_step),
        settings.steps,
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
        "steps": settings.steps,
        "parameters": model.count_params(),
        "tokens_per_second": history[-1]["tokens_per_second"] if history else None,  # only the chief keeps it
        "minutes": (time.perf_counter() - start) / 60,
    }
    model_settings = _model_settings(model, settings, tokenizer)
    if run is not None:

        def save(path, made_by):
            save_pretrained(model, path, tokenizer=tokenizer, settings=model_settings, made_by=made_by, overwrite=True)

        run.finish(metrics, save, keep_checkpoint=settings.schedule == "constant")
    return PretrainingRun(metrics, history, model, tokenizer, model_settings, run.path if run else None)


def _tensorboard(logs, tokenizer, evaluation, every):
    if logs is None:
        return []
    return [TensorBoardScalars(logs), MaskedExamples(tokenizer, next(iter(evaluation)), logs, every=every)]


def _model_settings(model, settings, tokenizer):
    return ModelSettings(task=model.task, sequence_length=settings.sequence_length, tokenizer=tokenizer.settings())
