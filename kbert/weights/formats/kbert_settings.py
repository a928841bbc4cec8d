"""`kbert_settings.json`: settings that another format cannot store, in a file beside its own."""

import pathlib

from kbert.files import read_json, write_json
from kbert.pipelines.settings import ModelSettings

NAME = "kbert_settings.json"


def write_kbert_settings(directory, settings: ModelSettings) -> None:
    """Writes the settings beside a checkpoint of another format; other programs ignore the file."""
    write_json(pathlib.Path(directory) / NAME, settings.to_dict())


def read_kbert_settings(directory, task: str) -> ModelSettings | None:
    """The settings beside a checkpoint of this task; None if there are none, or only for another task."""
    path = pathlib.Path(directory) / NAME
    if not path.is_file():
        return None
    try:
        settings = ModelSettings.from_dict(read_json(path))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged: {error}. Repair or delete it: the checkpoint can be read without it."
        ) from error
    return settings if settings.task.name == task else None
