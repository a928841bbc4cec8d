"""The pipeline that a fine-tuning trains, with the weights that it starts from."""

from kbert.models.bert_model import BertModel
from kbert.pipelines.build import build_pipeline
from kbert.pipelines.pipeline import Pipeline
from kbert.tasks.model_of_task import model_of_task
from kbert.weights.description import ModelDescription
from kbert.weights.load import load_pretrained


def starting_pipeline(source, task, settings, options) -> Pipeline:
    """Loads or builds the model of a task, with the preprocessing and the answers that the task wants.

    Args:
        source: see `kbert.finetune`.
        task: the task object, as completed by its training examples.
        settings: dict, what the task and its examples decide of a model.
        options: `FinetuningOptions`.

    Raises:
        FileNotFoundError, ValueError: as `kbert.finetune`.
    """
    length = {} if options.sequence_length is None else {"sequence_length": options.sequence_length}
    if isinstance(source, BertModel | Pipeline):
        model, tokenizer = model_of_task(source, task.name, settings, options)
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
        loaded, model = model, ModelDescription.of(model).build()
        model.pretrained = loaded.pretrained
    return model
