"""A model that is given → the model that a fine-tuning trains."""

from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_pipeline
from kbert.weights.description import ModelDescription


def model_of_task(source, task, settings, options):
    """The model of a task on the encoder of a model that is given, and its tokenizer.

    Args:
        source: a kbert model or pipeline.
        task: the task's word.
        settings: dict, what the task and its examples decide of a model.
        options: `FinetuningOptions`.

    Returns:
        (model, `BertTokenizer` or None): the given model itself where it is the task's already.

    Raises:
        ValueError: options that need a source to load; a multi-label classifier for a task with one label a text.
    """
    model = source.model if isinstance(source, Pipeline) else source
    tokenizer = source.tokenizer if isinstance(source, Pipeline) else model.pretrained and model.pretrained.tokenizer
    if options.random_weights or options.dropout is not None or options.bilstm:
        raise ValueError(
            "finetune: `random_weights`, `dropout` and `bilstm` need a source that is loaded. Received: a model"
        )
    is_multi_label, wanted = getattr(model, "multi_label", False), settings.get("multi_label", False)
    if is_multi_label and not wanted:
        raise ValueError(
            "finetune: expected a model with one label a text. Received: a multi-label classifier, which takes "
            "kbert.tasks.Classification(label_separator=...), or `pipeline.fit(texts, labels)`"
        )
    is_same = getattr(model, "num_labels", None) == settings.get("num_labels") and is_multi_label == wanted
    if model.task == task and is_same:
        return model, tokenizer
    encoder = model if model.task == "encoder" else model.encoder
    arguments = {n: settings[n] for n in ModelDescription.argument_names(task) if n in settings}
    return task_pipeline(task).model_class(encoder, **arguments), tokenizer
