"""Fine-tuning as one call: section 3.2 and appendix A.3 of the paper. `run_finetuning` does the work."""

import dataclasses
import pathlib
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from kbert.options import (
    PASSING,
    Bookkeeping,
    Count,
    Distillation,
    Fraction,
    FractionBelowOne,
    Machine,
    Natural,
    Optimization,
    PathLike,
    Peak,
    Positive,
    Scoring,
    verb,
)

if typing.TYPE_CHECKING:
    from kbert.pipelines.pipeline import Pipeline


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


def _run(arguments) -> FinetunedRun:
    from kbert.finetuning.run_finetuning import Finetuning  # not above: it loads TensorFlow

    return Finetuning(arguments).run()


@verb(_run)
def finetune(
    source: PathLike | Any,
    task,
    train: PathLike | Any,
    dev: FractionBelowOne | PathLike | Any = None,
    output: Annotated[PathLike | None, PASSING] = None,
    *,
    epochs: Positive = 3.0,
    steps: Count | None = None,
    batch_size: Count = 32,
    learning_rate: Peak = 5e-5,
    warmup_proportion: Fraction = 0.1,
    sequence_length: Count | None = None,
    seed: Natural = 0,
    dropout: FractionBelowOne | None = None,
    lora_rank: Count | None = None,
    class_weight: Literal["balanced"] | Mapping | None = None,
    group_by_length: bool = False,
    random_weights: bool = False,
    scoring: Scoring = Scoring(),
    distillation: Distillation = Distillation(),
    optimization: Optimization = Optimization(),
    machine: Machine = Machine(),
    bookkeeping: Bookkeeping = Bookkeeping(),
    overwrite: Annotated[bool, PASSING] = False,
    reuse: Annotated[bool, PASSING] = False,
    dry_run: Annotated[bool, PASSING] = False,
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
        steps: weight updates, instead of `epochs`.
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
        scoring: `kbert.options.Scoring`: when `dev` is scored, which weights are kept, and when to end early.
        distillation: `kbert.options.Distillation`: a teacher, whose answers the model learns, too.
        optimization: `kbert.options.Optimization`: weight decay, bias correction, decay by layer, micro-batches.
        machine: `kbert.options.Machine`: strategy, precision, XLA.
        bookkeeping: `kbert.options.Bookkeeping`: checkpoints, TensorBoard, your own callbacks. With `dev` their
            ``on_epoch_end`` fires after each evaluation, with its scores (``val_accuracy`` …); without, after each
            window of about 50 steps. Which weights are kept is for `keep`.
        overwrite: delete another run in `output`.
        reuse: of a finished run with the same settings and examples in `output`, return the result, instead of an
            error; `overwrite` keeps it.
        dry_run: train and write nothing: the metrics are an estimate of steps, memory and time.

    Returns:
        `FinetunedRun`, with ``metrics``, ``history``, ``pipeline`` and ``path``.

    Raises:
        TypeError: `task` is no task object, `source` no model, or the callbacks are none.
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
