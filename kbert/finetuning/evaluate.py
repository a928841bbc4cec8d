"""Evaluation as one call: `kbert.evaluate`. `run_evaluation` does the work."""

from typing import Annotated, Any, Literal

from kbert.options import PASSING, Arguments, Count, Machine, PathLike, verb


def _run(arguments):
    from kbert.finetuning.run_evaluation import run_evaluation  # not above: it loads TensorFlow

    return run_evaluation(arguments)


@verb(_run)
def evaluate(
    pipeline: list[PathLike] | PathLike | Any,
    task=None,
    examples: PathLike | Any = None,
    batch_size: Count = 32,
    *,
    window_pooling: Literal["stored", "mean", "max", "off"] = "stored",
    null_threshold: Literal["stored", "off"] | float = "stored",
    machine: Machine = Machine(),
    output: Annotated[PathLike | None, PASSING] = None,
    overwrite: Annotated[bool, PASSING] = False,
    return_predictions: Annotated[bool, PASSING] = False,
):
    """Answers all examples and scores the answers by the task's official rules.

    Args:
        pipeline: `kbert.Pipeline`, or a source for `kbert.load_pretrained`; a list of these is an ensemble, whose
            outputs are the means of its models' (which must share vocabulary and preprocessing).
        task: a task object of the pipeline's task, or a dict of those of its fields that are not as in the training of
            the (first) model, but not of those that the model has fixed, such as its labels; None: columns and formats
            are as in its training.
        examples: the result of ``task.read``, a file's path (of a GLUE directory the dev sets), or rows in memory.
        batch_size: rows per forward pass; scores do not depend on it.
        window_pooling: instead of the stored one: how the windows of a long text are pooled; "off": texts are
            truncated.
        null_threshold: instead of the stored one, of "no answer" (of an ensemble the mean of its models'); "off": every
            question is answered.
        machine: `kbert.options.Machine`, for models that are loaded.
        output: directory for metrics.json and, for questions and tagged words, the official prediction files.
        overwrite: replace what is in `output`.
        return_predictions: whether to return the `kbert.tasks.Evaluation`, with the predictions, as well.

    Returns:
        dict of scores; with `return_predictions` (scores, `kbert.tasks.Evaluation`).

    Raises:
        TypeError: `task` is no task object, `pipeline` no pipeline and no source.
        ValueError: a pipeline of another task, a label that it does not know, incompatible models, in a dict a field
            that the model has fixed.
        FileExistsError: `output` holds other files.
        FloatingPointError: scores that are infinite or NaN, as of a model with damaged weights.

    Example::

        kbert.evaluate(run.pipeline, task, task.read("test.csv"))["accuracy"]
        kbert.evaluate("runs/reviews", examples="test.csv")["accuracy"]
    """


def not_as_stored(asked: Arguments) -> dict[str, Any]:
    """`window_pooling` and `null_threshold` as `kbert.build_pipeline` takes them, unless they are as stored."""
    values = {"window_pooling": asked.window_pooling, "null_threshold": asked.null_threshold}
    return {name: None if value == "off" else value for name, value in values.items() if value != "stored"}
