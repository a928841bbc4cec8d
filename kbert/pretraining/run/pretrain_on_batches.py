"""Pre-train BERT on batches that were written before, without TensorFlow."""

import importlib.util
import logging
import math
import os
import pathlib

import keras

from kbert.checks import check_bool, check_integers, check_numbers, check_peak, check_positive
from kbert.config import BertConfig
from kbert.files import read_json, sha256, write_directory
from kbert.inspection.board.log_directory import log_directory
from kbert.inspection.board.tensor_board import TensorBoard
from kbert.inspection.examples.masked_examples import MaskedExamples
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.pipelines.settings import ModelSettings
from kbert.pretraining.batch_files import MANIFEST, VOCABULARY, BatchFiles
from kbert.pretraining.run.pretraining_optimizer import compile_with
from kbert.pretraining.run.pretraining_run import PretrainingRun, measure_run
from kbert.text.same_tokenizer import check_same_tokenizer
from kbert.text.vocabulary import read_vocabulary
from kbert.training.accumulation import check_accumulation
from kbert.training.callbacks import ConsoleProgress, callback_list
from kbert.training.dry_run import estimate_training
from kbert.training.hardware import choose_hardware
from kbert.training.intervals import resolve_log_interval
from kbert.training.resume import fit_steps
from kbert.training.run_directory import open_run
from kbert.weights.formats.kbert.read import CONFIG, WEIGHTS, is_kbert_directory, read_kbert_vocabulary
from kbert.weights.formats.kbert.write import write_kbert_directory
from kbert.weights.step_checkpoint import write_description
from kbert.weights.step_paths import CHECKPOINTS

_LOGGER = logging.getLogger("kbert")
_WARMUP = 10_000  # steps


def pretrain_on_batches(
    directory,
    *,
    size=None,
    init=None,
    steps=None,
    learning_rate=1e-4,
    warmup_steps=None,
    weight_decay=0.01,
    dropout=None,
    accumulate=1,
    seed=0,
    strategy="auto",
    logical_cpus=None,
    precision="auto",
    xla="auto",
    checkpoint_every=500,
    log_every=None,
    callbacks=(),
    log_dir=None,
    profile=None,
    output=None,
    overwrite=False,
    dry_run=False,
) -> PretrainingRun:
    """`kbert.pretrain` on the batches of `write_batches`: the same steps, on any backend, also without TensorFlow.

    With `output`, the same call resumes a killed run. The directory receives model/ (a kbert directory, which
    `kbert.load_pretrained` reads on every backend), metrics.json, settings.json, inputs.json, history.jsonl, logs/
    (TensorBoard, where it is installed) and, until the run is finished, checkpoints/.

    Args:
        directory: of batches, which decide batch size, sequence length, masks, order, and whether rows are packed.
        size: str, "tiny" to "large", of new weights; "tiny" by default.
        init: instead of new weights: a kbert directory of a pre-trained model, or a recipe's output with one in model/
            (kbert convert makes one of other formats).
        steps: int; None: as many as there are batches.
        learning_rate, warmup_steps, weight_decay, dropout, accumulate, seed: see `kbert.pretrain`.
        strategy, logical_cpus, precision, xla: see `kbert.training.choose_hardware`.
        checkpoint_every: int, steps; the held-out batches are evaluated at the same time.
        log_every: int, steps; by default the divisor of `checkpoint_every` nearest to 100.
        callbacks: further Keras callbacks, or one; none that sets the learning rate.
        log_dir, profile: see `kbert.pretrain`.
        output: path of a directory; None: nothing is written.
        overwrite: bool, delete another run in `output`.
        dry_run: bool, train and write nothing: `metrics` is the result of `kbert.training.dry_run.estimate_training`.

    Returns:
        `PretrainingRun`, without a tokenizer.

    Raises:
        ValueError: incompatible arguments, another tokenizer than that of `init`, damaged batches, a batch that the
            devices cannot share.
        FileExistsError: `output` holds a finished run, one with other settings, or other files.
        FloatingPointError: the training diverged.

    Source: Devlin et al. 2018, section 3.1 and appendix A.2.
    """
    if init is not None and size is not None:
        raise ValueError(f"pretrain_on_batches: `init` has an architecture of its own. Received: size={size!r} as well")
    owner = "pretrain_on_batches"
    overwrite, dry_run = check_bool(overwrite, f"{owner}: `overwrite`"), check_bool(dry_run, f"{owner}: `dry_run`")
    logs = log_directory(owner, log_dir, output, profile)
    callbacks = callback_list(owner, callbacks, has_own_rate=True)
    learning_rate = check_peak(owner, learning_rate)
    (weight_decay,) = check_numbers(owner, "[0, 1]", weight_decay=weight_decay).values()
    if dropout is not None:
        (dropout,) = check_numbers(owner, "[0, 1)", dropout=dropout).values()
    (accumulate,) = check_positive(owner, accumulate=accumulate).values()
    (seed,) = check_integers(owner, 0, seed=seed).values()
    if logical_cpus is not None:
        (logical_cpus,) = check_positive(owner, logical_cpus=logical_cpus).values()
    training, evaluation = BatchFiles(directory), BatchFiles(directory, evaluation=True)
    steps = _checked_steps(steps, training)
    if warmup_steps is None:
        warmup_steps = min(_WARMUP, math.ceil(steps / 10))
    (warmup_steps,) = check_integers(owner, 0, warmup_steps=warmup_steps).values()
    settings = {"batches": os.fspath(directory), "init": None if init is None else os.fspath(init), "size": size}
    settings |= {"steps": steps, "learning_rate": learning_rate, "warmup_steps": warmup_steps}
    settings |= {"weight_decay": weight_decay, "dropout": dropout, "accumulate": accumulate, "seed": seed}
    settings |= {"strategy": strategy, "logical_cpus": logical_cpus, "precision": precision, "xla": xla}
    schedule = WarmupLinearDecay(learning_rate, warmup_steps, steps)
    log_every = resolve_log_interval("pretrain_on_batches", checkpoint_every, log_every)
    hardware = choose_hardware(strategy, precision, xla, logical_cpus)
    check_accumulation(accumulate, hardware, [training.manifest["batch_size"]])
    _LOGGER.info("%s", hardware.describe())
    keras.utils.set_random_seed(seed)
    vocabulary = read_vocabulary(pathlib.Path(directory) / VOCABULARY)
    with hardware.scope():
        model = _starting_model(training, vocabulary, size, init, dropout)
        parts = training.manifest["num_parts"]
        trained = model if parts is None else model.with_parts(parts)
        compile_with(
            AdamW(schedule, weight_decay), trained, model, micro_batches=accumulate, jit_compile=hardware.jit_compile
        )
    manifest, run = training.manifest, None
    model_settings = ModelSettings(
        task=model.task, sequence_length=manifest["sequence_length"], tokenizer=manifest["tokenizer"]
    )
    if dry_run:
        return PretrainingRun(estimate_training(trained, training, steps), [], model, None, model_settings)
    if output is not None:
        inputs = {"batches": pathlib.Path(directory) / MANIFEST, "init": init}
        inputs = {name: path for name, path in inputs.items() if path is not None}
        run = open_run(output, settings, overwrite, hardware, inputs=inputs, recipe="kbert pretrain-on-batches")
        if run.is_chief:
            write_description(run.path / CHECKPOINTS, model, model_settings, vocabulary)
    windows = int(checkpoint_every) // log_every
    board = _board(logs, profile, model, settings, evaluation)
    examples = [MaskedExamples(vocabulary, evaluation[0], logs, every=windows)] if board else []
    history = fit_steps(
        trained,
        lambda start_step: BatchFiles(directory, start_step),
        steps,
        run.path if run else None,
        window=log_every,
        checkpoint_every=windows,
        validation_data=evaluation,
        validation_every=windows,
        callbacks=[ConsoleProgress(), *board, *examples, *callbacks],
    )
    metrics = measure_run(trained, evaluation, history, steps, board if hardware.is_chief else [])
    if run is not None:

        def save(path, made_by):
            def write(partial):
                write_kbert_directory(partial, model, model_settings, vocabulary, made_by)

            write_directory(path, write, needed=4 * model.count_params())

        run.finish(metrics, save)
    return PretrainingRun(metrics, history, model, None, model_settings, run.path if run else None)


def _board(log_dir, profile, model, settings, evaluation):
    if log_dir is None:
        return []
    if importlib.util.find_spec("tensorboard") is None:  # TensorFlow brings it along, JAX does not
        _LOGGER.info("TensorBoard is not installed: there will be no logs for it.")
        return []
    about = settings | model.config.to_dict() | {"parameters": model.count_params()}
    return [TensorBoard(log_dir, settings=about, batch=evaluation[0], profile=profile, wait_for_finish=True)]


def describe_batches(directory) -> str:
    """What a directory of batches holds, in a line, for printing."""
    manifest = read_json(pathlib.Path(directory) / MANIFEST)
    return (
        f"{manifest['steps']:,} batches of {manifest['batch_size']:,} {'packed ' if manifest['num_parts'] else ''}rows "
        f"of {manifest['sequence_length']} tokens, vocabulary of {manifest['vocabulary_size']:,}"
    )


def _checked_steps(steps, training):
    steps = len(training) if steps is None else steps
    (steps,) = check_positive("pretrain_on_batches", steps=steps).values()
    if steps > len(training):
        raise ValueError(
            f"pretrain_on_batches: `steps` must be from 1 to {len(training)}, the number of batches. Received: {steps}"
        )
    return steps


def _starting_model(training, vocabulary, size, init, dropout):
    manifest, (_, labels, _) = training.manifest, training.element_spec
    rates = {} if dropout is None else {"hidden_dropout": dropout, "attention_dropout": dropout}
    pairs = "nsp_logits" in labels
    if manifest.get("left_to_right"):
        raise ValueError(
            "pretrain_on_batches: expected batches with masked tokens. Received: batches with left_to_right=True"
        )
    if init is not None:
        return _stored_model(init, vocabulary, manifest["tokenizer"], pairs, rates)
    config = BertConfig.from_size(
        size or "tiny",
        vocabulary_size=manifest["vocabulary_size"],
        max_sequence_length=max(512, manifest["sequence_length"]),
        **rates,
    )
    return BertPretrainer(config, next_sentence=pairs)


def _stored_model(init, vocabulary, tokenizer, pairs, rates):
    """Without `kbert.load_pretrained`, which knows all tasks and formats and needs TensorFlow for its tokenizer."""
    paths = (pathlib.Path(init), pathlib.Path(init) / "model")
    path = next((path for path in paths if is_kbert_directory(path)), None)
    if path is None:
        raise ValueError(f"pretrain_on_batches: `init` must be a kbert directory. Received: {os.fspath(init)!r}")
    content, task = read_json(path / CONFIG), "pretraining" if pairs else "masked_lm"
    if (stored := content["task"]["name"]) != task:
        raise ValueError(f"pretrain_on_batches: the batches are for a {task} model. Received: {path}, a {stored} model")
    if content.get("quantized_layers"):
        raise ValueError(f"pretrain_on_batches: training needs float weights. Received: {path}, a quantised model")
    if sha256(path / WEIGHTS) != read_json(path / "manifest.json")["files"][WEIGHTS]["sha256"]:
        raise ValueError(f"{path / WEIGHTS} is damaged: its sha256 is not the one in manifest.json")
    config = BertConfig.from_dict(content["architecture"] | rates)
    own = read_kbert_vocabulary(path, config), content["tokenizer"]
    check_same_tokenizer("pretrain_on_batches: the batches", own, (vocabulary, tokenizer))
    if config.causal:
        raise ValueError(
            f"pretrain_on_batches: `init` must be a bidirectional model. Received: {path}, a left-to-right one"
        )
    model = BertPretrainer(config, next_sentence=pairs, **content["model"])
    model.load_weights(path / WEIGHTS)
    return model
