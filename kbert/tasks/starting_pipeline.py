"""The pipeline that a fine-tuning trains, with the weights that it starts from."""

from kbert.models.bert_model import BertModel
from kbert.pipelines.build import build_pipeline
from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_pipeline
from kbert.weights.description import ModelDescription
from kbert.weights.load import load_pretrained


def starting_pipeline(source, task, settings, options) -> Pipeline:
    """Loads or builds the model of a task, with the preprocessing and the answers that the task wants."""
    length = {} if options.sequence_length is None else {"sequence_length": options.sequence_length}
    if isinstance(source, BertModel | Pipeline):
        model, tokenizer = _given(source, task.name, settings, options)
        fields = {k: v for k, v in settings.items() if k not in ("num_labels", "multi_label")} | length
    else:
        model, tokenizer, fields = _loaded(source, task.name, settings | length, options), None, {}
    pipeline = build_pipeline(model, tokenizer, **fields)
    more = task.pipeline_options(pipeline.preprocessor.sequence_length)
    return build_pipeline(model, tokenizer, **(fields | more)) if more else pipeline


def _loaded(source, task, settings, options):
    settings, own = dict(settings), set(ModelDescription.argument_names(task))
    if options.dropout is not None:  # the head of spans has none
        settings |= dict.fromkeys((*(own & {"dropout"}), "hidden_dropout", "attention_dropout"), options.dropout)
    if options.bilstm:
        if "bilstm" not in own:
            raise ValueError(f"finetune: a {task} model takes no `bilstm`. Received: bilstm=True")
        settings["bilstm"] = True
    model = load_pretrained(source, task, **settings)
    if options.random_weights:
        loaded, model = model, ModelDescription.from_model(model).build()
        model.pretrained = loaded.pretrained
    return model


def _given(source, task, settings, options):
    """(model, tokenizer): the given model where it is the task's already, otherwise a new one on its encoder."""
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
