"""Fine-tuning as one call: section 3.2 and appendix A.3 of the paper."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from kbert.aliases import ExampleData, ModelSource, PathLike
from kbert.options import (
    NOT_RECORDED,
    Count,
    Distillation,
    Fraction,
    FractionBelowOne,
    Machine,
    Natural,
    Optimization,
    Positive,
    Precision,
    Strategy,
    checked,
    record,
)

if TYPE_CHECKING:
    import keras

    from kbert.aliases import Callbacks
    from kbert.finetuning.dev_scores import DevScores
    from kbert.finetuning.example_sets import ExampleSets
    from kbert.inspection.board.tensor_board import TensorBoard
    from kbert.pipelines.pipeline import Pipeline
    from kbert.tasks.task import Task, TrainingData
    from kbert.training.run_log import RunLog


@dataclasses.dataclass(frozen=True)
class FinetunedRun:
    """The result of `kbert.finetune`.

    Attributes:
        metrics: dict, the content of metrics.json: ``dev`` (the official scores), ``constant_answer`` (the baseline),
            ``evaluations`` (a dict for each, with its step), ``kept_step``, ``task`` …; of a dry run the estimate.
        history: list of dicts, the logs of the training, with ``val_…`` for windows with an evaluation.
        pipeline: `kbert.Pipeline`, with the weights that are kept.
        path: `pathlib.Path` of the output, or None.
    """

    metrics: dict[str, Any]
    history: list[dict[str, Any]] = dataclasses.field(repr=False)
    pipeline: "Pipeline"
    path: pathlib.Path | None


@checked
def finetune(
    source: ModelSource,
    task: "Task",
    train: ExampleData,
    dev: FractionBelowOne | ExampleData | None = None,
    output: Annotated[PathLike | None, NOT_RECORDED] = None,
    *,
    epochs: Positive = 3.0,
    steps: Count | None = None,
    batch_size: Count = 32,
    learning_rate: Positive = 5e-5,
    warmup_proportion: Fraction = 0.1,
    sequence_length: Count | None = None,
    seed: Natural = 0,
    dropout: FractionBelowOne | None = None,
    lora_rank: Count | None = None,
    class_weight: Literal["balanced"] | Mapping | None = None,
    group_by_length: bool = False,
    random_weights: bool = False,
    evaluate_every: Literal["epoch"] | Count | None = "epoch",
    keep: Literal["best", "last"] = "best",
    patience: Count | None = None,
    more_dev: Annotated[Mapping[str, ExampleData] | None, NOT_RECORDED] = None,
    teacher: ModelSource | None = None,
    unlabelled: ExampleData | None = None,
    distillation: Distillation = Distillation(),
    optimization: Optimization = Optimization(),
    strategy: Strategy = "auto",
    precision: Precision = "auto",
    machine: Machine = Machine(),
    checkpoint_every: Annotated[Count, NOT_RECORDED] = 200,
    log_every: Annotated[Count, NOT_RECORDED] = 50,
    log_dir: Annotated[PathLike | None, NOT_RECORDED] = None,
    profile: Annotated[str | None, NOT_RECORDED] = None,
    callbacks: Annotated["Callbacks", NOT_RECORDED] = (),
    overwrite: Annotated[bool, NOT_RECORDED] = False,
    reuse: Annotated[bool, NOT_RECORDED] = False,
    dry_run: Annotated[bool, NOT_RECORDED] = False,
) -> FinetunedRun:
    """Fine-tunes a pre-trained model on a task, with a new last layer unless it has one for the same labels.

    A model of the task with the same labels keeps its head and their order. A head with default labels (``LABEL_0`` …,
    ``0`` …) is reused if the number of labels matches. All weights are trained, unless `lora_rank` is given. Layers
    that are frozen (``model.encoder.trainable = False``) in a model in memory stay frozen. The learning rate rises over
    the first tenth of the steps and falls linearly to 0. After each epoch the model is evaluated on `dev`, and the best
    weights are kept, as the paper chooses the number of epochs on dev.
    Progress is logged (logger "kbert"; `kbert.log_to_console` shows it); nothing is printed.

    Args:
        source: a source for `kbert.load_pretrained`, such as ``"google-bert/bert-base-uncased"`` or the output of a
            run; or a kbert model or pipeline, whose own encoder is trained in place; to resume, pass its original
            weights.
        task: a task object, such as ``kbert.tasks.Classification(text="review", label="stars")``.
        train: examples to train on: the result of ``task.read``, the path of a file, or rows in memory (a dict of
            columns, a list of dicts or tuples, a pandas DataFrame, a finite tf.data.Dataset). Of a Hugging Face
            DatasetDict it is the split "train", and `dev` the split "validation".
        dev: examples to evaluate on, as `train`; of a GLUE directory its dev split. A fraction such as 0.1 of
            `train` is held out, the same one for every seed. None: no scores, and the last weights are kept.
        output: directory for the model, its metrics, history and TensorBoard logs; an unfinished run with the same
            settings and examples is resumed exactly. None: nothing is written.
        epochs: passes over `train`. The paper chooses among 2, 3 and 4.
        steps: weight updates; overrides `epochs`.
        batch_size: examples (or windows) per update, over all replicas. The paper: 16 or 32.
        learning_rate: the peak. The paper: 5e-5, 3e-5 or 2e-5.
        warmup_proportion: the fraction of the steps in which the learning rate rises to its peak.
        sequence_length: tokens per row; None: the model's own, 128 by default (spans: 384).
        seed: determines new weights, dropout and the order of the examples.
        dropout: instead of the model's own dropout rates.
        lora_rank: instead of all weights, train the head and, for the encoder, LoRA's matrices of this rank
            (`enable_lora`). The stored model has them merged. ``adapter/`` beside it has only them and the head, for
            `kbert.weights.load_adapter` or Hugging Face's PEFT.
        class_weight: for a classifier, {label: loss factor of its examples}, or "balanced": every label has the same
            total weight, in windows where texts have windows. An integer is a class number, and an error if it is also
            the label of another class.
        group_by_length: whether batches have rows of similar length: faster, but a batch is no longer drawn from all
            rows.
        random_weights: whether to take only architecture and vocabulary of `source`, to measure the effect of
            pre-training. All weights are trained.
        evaluate_every: when to score `dev`: after each "epoch" or a number of steps, and always at the end, but not a
            few steps before it. None scores it only at the end.
        keep: the weights to keep: the "best" by the first of the task's `metrics` (then by the lowest loss, then the
            earliest), or the "last".
        patience: with `dev`, stop after this many evaluations without improvement. None: never.
        more_dev: with `dev`, further sets to score at the end: {suffix of their metrics: examples}.
        teacher: a fine-tuned model of the same task, as a source for `kbert.load_pretrained` or a pipeline, from whose
            answers the model also learns (classification, regression, tagging, and spans if both have the same
            vocabulary). They are computed once and kept in the output.
        unlabelled: texts that only the teacher answers, in the columns of the task: a file as ``kbert predict`` takes
            it, or strings as ``pipeline.predict`` does. They count as examples of an epoch.
        distillation: `kbert.options.Distillation`: how the model learns from the teacher.
        optimization: `kbert.options.Optimization`: weight decay, bias correction, decay by layer, micro-batches.
        strategy: "auto" takes a TPU if there is one, all GPUs if there are several, else one device; "one",
            "mirrored", "multiworker" or "tpu".
        precision: a Keras dtype policy. "auto" is bfloat16 or float16 where the accelerator is fast with it.
        machine: `kbert.options.Machine`: XLA, and devices to try a strategy on.
        checkpoint_every: steps from one checkpoint to the next.
        log_every: steps of a window of logs.
        log_dir: directory of the TensorBoard logs (`kbert.inspection.TensorBoard`). Defaults to ``logs`` in `output`.
        profile: steps to profile for TensorBoard, as "20:25", with `log_dir` or `output`.
        callbacks: your own Keras callbacks, or one; they must not set the learning rate. With `dev` their
            ``on_epoch_end`` fires after each evaluation, with its scores (``val_accuracy`` …); without, after each
            window of logs. `keep` selects the weights. A resumed run restores the state of a callback that has
            ``get_state()`` and ``set_state(state)``. Keras' own have neither and start anew; `patience` resumes.
        overwrite: delete another run in `output`, once the examples, the model and the options have been checked.
        reuse: of a finished run with the same settings and examples in `output`, return the result, instead of an
            error; `overwrite` keeps it.
        dry_run: train and write nothing: the metrics are an estimate of steps, memory and time.

    Returns:
        `FinetunedRun`, with ``metrics``, ``history``, ``pipeline`` and ``path``.

    Raises:
        TypeError: `task` is not a task object, `source` is not a model, or an entry of `callbacks` is not a callback.
        FileNotFoundError: no such file or model.
        NotADirectoryError: `output` or `log_dir` is a file, or below one.
        FileExistsError: `output` holds other files or another run; the message says what was found.
        ValueError: incompatible examples, settings or model; a batch that does not fit into memory.
        FloatingPointError: the training diverged; the message names the step.
        KeyboardInterrupt: SIGINT or SIGTERM, after a checkpoint of the last step was saved.

    Source: Devlin et al. 2018, section 3.2 and appendix A.3.

    Example::

        task = kbert.tasks.Classification(text="review", label="stars")
        run = kbert.finetune("google-bert/bert-base-uncased", task, "reviews.csv", 0.1, "runs/reviews", epochs=4)
        run.metrics["dev"]["accuracy"], run.pipeline.predict(["A charming journey."])["label"]
    """
    settings = record(finetune, locals())
    from kbert.finetuning import stored_run
    from kbert.finetuning.dev_scores import DevScores
    from kbert.finetuning.example_sets import ExampleSets
    from kbert.finetuning.identity import identify
    from kbert.finetuning.starting_pipeline import starting_pipeline
    from kbert.finetuning.teacher import Teacher
    from kbert.inspection.board.tensor_board import log_directory
    from kbert.keras_compat import seeded
    from kbert.models.copies import copy_model
    from kbert.models.lora import lora_layers
    from kbert.optim.make_optimizer import make_optimizer
    from kbert.optim.schedule import WarmupLinearDecay
    from kbert.training import ExactResume, RunLog, choose_hardware, loop, open_run
    from kbert.training.callbacks import callback_list
    from kbert.training.dry_run import estimate_training

    log_dir = log_directory("finetune", log_dir, output, profile)
    callbacks = callback_list("finetune", callbacks, has_own_rate=True)
    sets = ExampleSets.read(task, train, dev, more_dev or {})
    _check_needs(sets, evaluate_every, patience, teacher, unlabelled, class_weight)
    hardware = choose_hardware(strategy, precision, machine.xla, machine.logical_cpus, source=source)
    hardware.check_batch_sizes(batch_size, accumulate=optimization.accumulate, is_even=task.even_batches)
    identified, contents = identify(source, task, sets, dev, teacher, unlabelled)
    settings |= identified
    with seeded(seed), hardware.scope():
        pipeline, task, sets = starting_pipeline(source, task, sets, sequence_length, dropout, random_weights)
    if lora_rank and lora_layers(pipeline.model):
        raise ValueError("finetune: `lora_rank` needs a model without LoRA. Call its `merge_lora()` first.")
    task.check_training(pipeline, sets.train, class_weight)
    all_examples, taught = sets.train, None
    if teacher is not None:
        taught = Teacher(teacher, task, pipeline, sets.train, unlabelled, distillation, batch_size)
        all_examples = taught.examples  # with the texts that only the teacher answers
    directory = None if dry_run else output
    run = open_run(directory, settings, overwrite, hardware, recipe=stored_run.RECIPE, reuse=reuse, **contents)
    if run.is_finished:
        with hardware.scope():
            return FinetunedRun(*stored_run.read_finished(run), run.path)

    with run.beginning():
        losses = "auto"
        options = dict(batch_size=batch_size, seed=seed, group_by_length=group_by_length, padding=hardware.padding)
        if class_weight is not None:
            options["class_weight"] = class_weight
        if taught is not None and not dry_run:
            options["teacher"], losses = taught.answers(run), taught.losses()
        data = task.training_data(pipeline, all_examples, **options)
        steps = steps or loop.training_steps(data.examples, batch_size, epochs)
        schedule = WarmupLinearDecay(learning_rate, int(warmup_proportion * steps), steps)  # int as in Google's code
        with seeded(seed), hardware.scope():
            model = copy_model(pipeline.model) if dry_run else pipeline.model
            if lora_rank:
                model.enable_lora(lora_rank)
            optimizer = make_optimizer(optimization, schedule)
            model.compile(optimizer, losses, micro_batches=optimization.accumulate, jit_compile=hardware.jit_compile)
    if dry_run:
        counts = {"examples": len(sets.train), "windows": data.windows}
        return FinetunedRun(counts | estimate_training(model, data.make_dataset(), steps), [], pipeline, None)

    stored_run.log_plan(hardware, model, source, dropout, sets, all_examples, data.windows, steps)
    stored_run.describe_checkpoints(run, pipeline)
    log = RunLog(run.path, batch_size * data.real_tokens)
    scoring = None
    if sets.dev:
        scoring = DevScores(
            pipeline, task, sets, hardware, steps, data.examples, batch_size, evaluate_every, keep, patience, callbacks
        )
    shown = settings | model.config.to_dict() | {"parameters": model.count_params()}
    board, watching = _callbacks(log, scoring, callbacks, log_dir, shown, data, profile)
    start = 0
    if run.path is not None:
        # From the checkpoint: weights, optimizer, dropout's random state, the step, scores and best weights, callbacks'
        # states. `RunLog` reads history.jsonl, `Teacher` teacher.npz. Seed and step give data and learning rate.
        with_state = callbacks if scoring is None else [scoring, *callbacks]
        resume = ExactResume(run.path, model, every=checkpoint_every, callbacks=with_state)
        watching.append(resume)
        start = resume.step
    done = loop.train(model, data.make_dataset, steps, start=start, log_every=log_every, callbacks=watching)

    pipeline, result, scored = (pipeline, None, {}) if scoring is None else scoring.score_kept(pipeline, done)
    metrics = scored | stored_run.describe_run(task, sets, all_examples, data.windows, done, log.records)
    stored_run.finish_run(run, board, pipeline, result, metrics, log.records)
    return FinetunedRun(metrics, log.records, pipeline, run.path)


def _callbacks(
    log: "RunLog",
    scoring: "DevScores | None",
    callbacks: "Sequence[keras.callbacks.Callback]",
    log_dir: pathlib.Path | None,
    settings: Mapping[str, Any],
    data: "TrainingData",
    profile: str | None,
) -> "tuple[TensorBoard | None, list[keras.callbacks.Callback]]":
    """(TensorBoard's callback, all callbacks in their order but for `ExactResume`, the last one)."""
    from kbert.inspection.board.tensor_board import run_board
    from kbert.inspection.examples.dev_examples import DevExamples

    baseline = {} if scoring is None else scoring.constant_answer()
    board = run_board(
        log_dir,
        settings=settings,
        baseline=baseline,
        batch=lambda: next(iter(data.make_dataset())),
        profile=profile,
    )
    ordered = [log, *callbacks] if scoring is None else [scoring, log]  # `scoring` calls `callbacks` itself
    if board is not None:
        ordered += [board] if scoring is None else [board, DevExamples(scoring, board.log_dir)]
    return board, ordered


def _check_needs(sets: "ExampleSets", evaluate_every, patience, teacher, unlabelled, class_weight) -> None:
    """Raises ValueError for options that would have no effect without another."""
    every = None if evaluate_every == "epoch" else evaluate_every  # the default
    for name, value in {"patience": patience, "evaluate_every": every}.items():
        if value and not sets.dev:
            raise ValueError(f"finetune: `{name}` needs `dev`. Received: {name}={value!r} and dev=None")
    if unlabelled is not None and (teacher is None or class_weight is not None):
        raise ValueError("finetune: `unlabelled` needs `teacher`, and no `class_weight`")
