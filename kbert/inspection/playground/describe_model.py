"""What the page shows of a model before it is loaded: what kind it is, and what it can be asked."""

from typing import Any

from kbert.files import read_json
from kbert.inspection.playground.request_fields import first_line
from kbert.inspection.playground.sources import ModelSource
from kbert.pipelines.registry import task_class, task_names
from kbert.serving.saved_model_file import find_export
from kbert.tasks.task import Task
from kbert.weights.open_checkpoint import open_checkpoint

WITHOUT_MODEL = ("masking", "next_sentence", "input_representation")


def views_of_task(task: str) -> tuple[str, ...]:
    """The views in which a model of this task gives its answers."""
    return (task_class(task) if task in task_names() else Task).playground_views


def describe(source: ModelSource) -> dict[str, Any]:
    """Kind, task, sizes, views and a note, as JSON; no weights are read."""
    if source.is_saved_model:
        return _describe_saved_model(source)
    stored = open_checkpoint(source.path)
    config, task = stored.description.config, stored.description.task
    views, note = (*WITHOUT_MODEL, "attention", *views_of_task(task)), ""
    if stored.vocabulary is None:
        views, note = (), "It has no vocabulary: write a kbert directory with one by kbert.save_pretrained."
    return {
        "kind": "kbert",
        "task": task,
        "layers": config.num_layers,
        "heads": config.num_heads,
        "hidden_dim": config.hidden_dim,
        "max_length": config.max_sequence_length,
        "views": list(views),
        "note": note,
    }


def _describe_saved_model(source):
    path = find_export(source.path) / "card.json"
    card = read_json(path)
    try:
        task, signatures, length = card["task"], sorted(card["signatures"]), card["settings"].get("sequence_length")
    except (AttributeError, KeyError, TypeError):
        raise ValueError(f"{path}: expected the card of a SavedModel of kbert.export. Received: another file") from None
    views = [*views_of_task(task), *(["next_sentence"] if "next_sentence" in signatures else [])]
    note = f"A SavedModel gives the answers of its signatures ({', '.join(signatures)}); its masks, embeddings and "
    note += "attention cannot be seen."
    if "next_sentence" in views:
        note += " Pairs for it are made with the vocabulary of the playground; it reads their sentences."
    about = {"kind": "saved_model", "task": task, "max_length": length, "views": views, "note": note}
    return _NOTHING | about


def unreadable(source: ModelSource, error: Exception) -> dict[str, Any]:
    """The description of a model that cannot be read: it has no views, and the note says why."""
    kind = "saved_model" if source.is_saved_model else "kbert"
    return _NOTHING | {"kind": kind, "views": [], "note": f"It cannot be read: {first_line(error)}"}


_NOTHING = dict.fromkeys(("kind", "task", "layers", "heads", "hidden_dim", "max_length", "views", "note"))
