"""What a fine-tuning is made of, by name and by content, for settings.json and inputs.json."""

import os
from typing import Any

from kbert.aliases import ModelSource
from kbert.finetuning.example_sets import ExampleSets
from kbert.finetuning.teacher import hash_of_texts
from kbert.models.bert_model import BertModel
from kbert.options import to_json
from kbert.pipelines.pipeline import Pipeline
from kbert.tasks.task import Task
from kbert.training.made_by import identify_model
from kbert.weights.source import check_source


def identify(
    source: ModelSource,
    task: Task,
    sets: ExampleSets,
    dev: Any,
    teacher: ModelSource | None,
    unlabelled: Any,
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Identifies the source, the task and the examples of `kbert.finetune`, before the source is trained.

    Returns:
        (their part of settings.json, {"inputs", "examples"} for `open_run`).
    """
    if not isinstance(source, BertModel | Pipeline):
        check_source("finetune: `source`", source, "a kbert model", "a kbert.Pipeline")
    train, dev_paths = sets.train.path, {suffix: examples.path for suffix, examples in sets.dev.items()}
    dev_path = dev_paths.pop("", None)
    texts = unlabelled if _is_path(unlabelled) else None
    settings = {
        "task": task.to_dict(),
        "source": identify_model(source),
        "teacher": identify_model(teacher),
        "train": train,
        "dev": dev if isinstance(dev, float) else dev_path,
        "unlabelled": texts,
    }
    inputs = {name: model for name, model in {"source": source, "teacher": teacher}.items() if _is_path(model)}
    inputs |= {"train": train, "dev": None if dev_path == train else dev_path, "unlabelled": texts}  # held out of train
    inputs["more_dev"] = [path for path in dev_paths.values() if path] or None
    hashes = {f"more_dev{suffix}" if suffix else "dev": examples.fingerprint() for suffix, examples in sets.dev.items()}
    hashes["train"] = sets.train.fingerprint()
    if unlabelled is not None and texts is None:
        hashes["unlabelled"] = hash_of_texts(unlabelled)
    return to_json(settings), {"inputs": inputs, "examples": hashes}


def _is_path(value) -> bool:
    return isinstance(value, str | os.PathLike)
