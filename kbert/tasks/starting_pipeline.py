"""The pipeline that a fine-tuning trains, with the weights that it starts from."""

from kbert.models.bert_model import BertModel
from kbert.pipelines.build import build_pipeline
from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_pipeline
from kbert.pipelines.settings import DEFAULT_SEQUENCE_LENGTH
from kbert.text.tokenizer import BertTokenizer
from kbert.weights.description import ModelDescription
from kbert.weights.load import load_pretrained


def starting_pipeline(source, task, settings, options) -> Pipeline:
    """Loads or builds the model of a task, with the preprocessing and the answers that the task wants."""
    length = {} if options.sequence_length is None else {"sequence_length": options.sequence_length}
    if isinstance(source, BertModel | Pipeline):
        model = _given(source, task.name, settings, options)
        tokenizer, own_length = _own_preprocessing(source, task.name)
        fields = {k: v for k, v in settings.items() if k not in ("num_labels", "multi_label")} | own_length | length
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
    """The given model where it is the task's already, otherwise a new one on its encoder."""
    model = source.model if isinstance(source, Pipeline) else source
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
        return model
    encoder = model if model.task == "encoder" else model.encoder
    arguments = {n: settings[n] for n in ModelDescription.argument_names(task) if n in settings}
    return task_pipeline(task).model_class(encoder, **arguments)


def _own_preprocessing(source, task):
    """(tokenizer, {"sequence_length"}) of a model or pipeline; of a task with a length of its own the latter is {}."""
    if isinstance(source, Pipeline):
        settings = source.settings()  # of the model: a fill-mask pipeline itself reads [MASK] in the text
        tokenizer = BertTokenizer(source.tokenizer.vocabulary, **settings["tokenizer"])
        length = settings["sequence_length"]
    elif source.pretrained is not None and source.pretrained.tokenizer is not None:
        tokenizer, length = source.pretrained.tokenizer, source.pretrained.settings.sequence_length
    else:
        raise ValueError(
            "finetune: `source` must be a model that was loaded with its tokenizer, or a pipeline, as "
            f"kbert.build_pipeline(model, tokenizer) makes it. Received: a {type(source).__name__} without tokenizer"
        )
    own_default = task_pipeline(task).default_length != DEFAULT_SEQUENCE_LENGTH
    return tokenizer, {} if own_default and source.task != task else {"sequence_length": length}
