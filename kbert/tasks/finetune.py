"""Fine-tuning as one call: section 3.2 and appendix A.3 of the paper."""

from collections.abc import Mapping, Sequence

from kbert.tasks.finetuned_run import FinetunedRun
from kbert.tasks.finetuning import Finetuning
from kbert.tasks.task import Task


def finetune(
    source,
    task: Task,
    train,
    dev=None,
    output=None,
    *,
    epochs: float = 3.0,
    steps: int | None = None,
    batch_size: int = 32,
    learning_rate: float = 5e-5,
    sequence_length: int | None = None,
    seed: int = 0,
    dropout: float | None = None,
    bias_correction: bool = False,
    group_by_length: bool = False,
    random_weights: bool = False,
    class_weight: Mapping | str | None = None,
    strategy: str = "auto",
    logical_cpus: int | None = None,
    precision: str = "auto",
    evaluate_every: str | int | None = "epoch",
    keep: str = "best",
    patience: int | None = None,
    checkpoint_every: int = 200,
    callbacks: Sequence = (),
    more_dev: Mapping | None = None,
    log_dir=None,
    overwrite: bool = False,
) -> FinetunedRun:
    """Trains every weight of a pre-trained model, with one new layer, on a task.

    The learning rate rises over the first tenth of the steps and falls linearly to 0. After each epoch the model is
    scored on `dev`, and the weights that score best are kept, as the paper chooses its epochs on dev. What happens is
    logged (logger "kbert"), nothing is printed.

    Args:
        source: what `kbert.load_pretrained` takes, such as ``"google-bert/bert-base-uncased"`` or a recipe's output; or
            a kbert model or pipeline, whose encoder is then trained itself.
        task: a task object, such as ``kbert.tasks.Classification(text="review", label="stars")``.
        train, dev: examples: what ``task.read`` gave, a file's path, or rows in memory (a dict of columns, a list of
            dicts or tuples, a pandas frame, a finite tf.data.Dataset). Without `dev` nothing is scored and the last
            weights are kept.
        output: directory for the model, its metrics, history and TensorBoard logs; an unfinished run of the same
            settings and examples there is resumed exactly. None: nothing is written at all.
        epochs: passes over `train`. The paper chooses among 2, 3 and 4.
        steps: weight updates, instead of `epochs`.
        batch_size: examples (or windows) an update, over all replicas. The paper: 16 or 32.
        learning_rate: the peak. The paper: 5e-5, 3e-5 or 2e-5.
        sequence_length: tokens of a row; None: the model's own, 128 by default (spans: 384).
        seed: decides new weights, dropout and the order of the examples.
        dropout: instead of the model's own dropout rates.
        bias_correction: Adam as published, with bias correction; BERT was trained without.
        group_by_length: batches of rows of like length: faster, but no longer drawn from all.
        random_weights: take only architecture and vocabulary of `source`: what is pre-training worth?
        class_weight: of a classifier, {label: factor of its examples' loss}, or "balanced".
        strategy, logical_cpus, precision: as of `kbert.training.hardware.choose_hardware`.
        evaluate_every: "epoch", a number of steps, or None: at the end alone.
        keep: "best" or "last": whose weights are kept.
        patience: stop after so many evaluations that brought nothing better; None: never.
        checkpoint_every: steps from one checkpoint to the next.
        callbacks: Keras callbacks of one's own.
        more_dev: {suffix: examples}, scored at the end; their metrics have names with that suffix.
        log_dir: of TensorBoard; None: ``logs`` in `output`.
        overwrite: delete what another run left in `output`.

    Returns:
        `FinetunedRun`, with ``metrics``, ``history``, ``pipeline`` and ``path``.

    Raises:
        FileNotFoundError: no such file or model.
        FileExistsError: `output` holds something else; the message says what.
        ValueError: examples, settings or a model that do not go together; a batch that memory cannot hold.
        FloatingPointError: the training diverged; the message names the step.
        KeyboardInterrupt: SIGINT or SIGTERM; the last step is saved before.

    Source: Devlin et al. 2018, section 3.2 and appendix A.3.

    Example::

        task = kbert.tasks.Classification(text="review", label="stars")
        train, dev = task.read("reviews.csv").split(0.1)
        run = kbert.finetune("google-bert/bert-base-uncased", task, train, dev, "runs/reviews", learning_rate=3e-5)
        run.metrics["dev"]["accuracy"], run.pipeline.predict(["A charming journey."])["label"]
    """
    return Finetuning(
        source,
        task,
        train,
        dev,
        output,
        epochs=epochs,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        sequence_length=sequence_length,
        seed=seed,
        dropout=dropout,
        bias_correction=bias_correction,
        group_by_length=group_by_length,
        random_weights=random_weights,
        class_weight=class_weight,
        strategy=strategy,
        logical_cpus=logical_cpus,
        precision=precision,
        evaluate_every=evaluate_every,
        keep=keep,
        patience=patience,
        checkpoint_every=checkpoint_every,
        callbacks=callbacks,
        more_dev=more_dev,
        log_dir=log_dir,
        overwrite=overwrite,
    ).run()
