"""What answers a file: a SavedModel of `kbert.export` in this process, or a stored model."""

import hashlib
import os
from typing import Any

import numpy as np
import tensorflow as tf

from kbert.checks import check_path
from kbert.files import read_json, sha256
from kbert.keras_compat import import_tensorflow_text, without_pattern
from kbert.pipelines.pipeline import Pipeline, check_columns_taken
from kbert.pipelines.registry import task_class
from kbert.preprocessing.strings import as_text, assertion_message, column_names, string_columns
from kbert.serving.audit import audit
from kbert.serving.saved_model_file import find_export
from kbert.training.hardware import choose_hardware
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained
from kbert.weights.provenance import describe_maker, reading_fields
from kbert.weights.source import check_source, local_source


class ExportedPipeline:
    """The signature ``serving_default`` of an export, with the answers of its task.

    The export is audited before it is loaded, since loading runs its graph.

    Args:
        directory: one version (``saved_models/reviews/1``), or a model's directory, of which the highest is taken.

    Attributes:
        parameters: how many the model has.
        input_names: of the string columns.
        signatures: the names of all signatures.
        output: name → spec of each output.
        max_rows: rows of tokens that the export answers at once: texts, windows of long texts, or choices.
        answers: `kbert.answers.Answers`, for `to_dicts` and `table_row` only.

    Raises:
        TypeError: no path.
        FileNotFoundError: no SavedModel there.
        ValueError: a SavedModel that `kbert.export` has not written, a damaged one, or one that `kbert.audit` objects
            to.
    """

    def __init__(self, directory: str | os.PathLike) -> None:
        import_tensorflow_text()  # registers the ops of tokenizers
        self.path = find_export(check_path(directory, "ExportedPipeline: `directory`"))
        if self.path is None:
            raise FileNotFoundError(f"Expected a SavedModel, such as saved_models/NAME/1. Received: {directory}")
        try:
            card = read_json(self.path / "card.json")
            default = card["signatures"]["serving_default"]
            self.task = card["task"]
            self.parameters = card["parameters"]
            self.input_names = tuple(default["example"]["body"]["inputs"])  # in their order
            self.max_rows = default["max_rows"]
            labels = card["labels"]
            numbers = (self.parameters, self.max_rows)
            is_card = isinstance(self.task, str) and all(type(n) is int and n > 0 for n in numbers)
        except (FileNotFoundError, KeyError, TypeError):
            is_card = False
        if not is_card:
            raise _not_ours(self.path)
        audit(self.path).require_clean()
        # Kept here, because the signatures do not keep it alive.
        self._saved_model = _load(self.path)
        functions = self._saved_model.signatures
        self.signatures = tuple(sorted(functions))
        default = functions["serving_default"]
        if set(self.input_names) != set(default.structured_input_signature[1]):
            raise _not_ours(self.path)
        self.output = default.structured_outputs
        task = task_class(self.task)
        self.answers = task.exported_answers(labels, frozenset(self.output))

    def predict_on_batch(self, inputs: Any, signature: str = "serving_default") -> dict[str, np.ndarray]:
        """The answers to a batch, as `kbert.Pipeline.predict_on_batch` returns them.

        Args:
            inputs: as for a `kbert.Pipeline`: dict of column → list of strings (choices: of lists of strings).
            signature: one of `signatures`. ``classify`` and ``regress`` take one column, ``inputs``, of serialised
                tf.Examples.

        Raises:
            TypeError, ValueError: an unknown signature, columns that it does not take, or a batch beyond the limits of
                the export.
        """
        if signature not in self.signatures:
            raise ValueError(
                f"ExportedPipeline: `signature` must be one of {list(self.signatures)}. Received: {signature!r}"
            )
        function = self._saved_model.signatures[signature]
        specs = function.structured_input_signature[1]
        is_default = set(specs) == set(self.input_names)
        names = self.input_names if is_default else tuple(sorted(specs))
        list_columns = tuple(name for name, spec in specs.items() if spec.shape.rank == 2)
        owner = f"signature {signature!r}"
        if set(specs) == {"inputs"}:
            owner += f" (serialised tf.Examples of {list(self.input_names)})"
        columns = string_columns(inputs, names, f"ExportedPipeline, {owner}", list_columns)
        check_columns_taken(f"ExportedPipeline, {owner}", self.task, column_names(inputs), names)
        try:
            answers = function(**dict(zip(names, columns, strict=True)))
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(f"{self.path}, {owner}: {assertion_message(error)}") from None
        return {name: as_text(answer.numpy()) for name, answer in answers.items()}

    def fingerprint(self) -> str:
        """A hash of the graph and the weights."""
        files = [self.path / "saved_model.pb", *sorted((self.path / "variables").glob("*"))]
        return hashlib.sha256("".join(sha256(file) for file in files).encode()).hexdigest()


def _not_ours(path):
    return ValueError(f"Expected a SavedModel of kbert.export, with card.json. Received: {path}")


def _load(path):
    try:
        with without_pattern(path) as readable:
            return tf.saved_model.load(readable)
    except Exception as error:  # a graph that is damaged leads to any
        reason = f"{type(error).__name__}: " + str(error).partition("\n")[0]
        raise ValueError(f"{path}: TensorFlow cannot load it: {reason}") from error


def load_pipeline(source: str | os.PathLike, precision: str = "auto", **options) -> Pipeline:
    """The pipeline of a stored model, on one device, with its task's options for prediction files.

    `options` of `kbert.build_pipeline` replace the stored ones.
    """
    with choose_hardware("one", precision).scope():
        model = load_pretrained(source)
        return build_pipeline(model, **(model.pretrained.settings.task.prediction_options() | options))


def open_pipeline(source: str | os.PathLike, precision: str = "auto", **options) -> "Pipeline | ExportedPipeline":
    """The `kbert.Pipeline` of a stored model, or the `ExportedPipeline` of a SavedModel.

    Raises:
        ValueError: `precision` or `options` for a SavedModel, whose settings are fixed.
    """
    check_source("open_pipeline: `source`", source, "the path of a SavedModel")
    if find_export(source) is None:
        return load_pipeline(source, precision, **options)
    if options or precision != "auto":
        received = sorted(options) + ["precision"] * (precision != "auto")
        raise ValueError(f"{source} is a SavedModel, whose settings are fixed. Received: {received}")
    return ExportedPipeline(source)


def trained_options(source: str | os.PathLike) -> dict[str, Any]:
    """How the files were read on which a model was fine-tuned, as far as its run says.

    Args:
        source: as for `kbert.load_pretrained`, or the path of a SavedModel of `kbert.export`.

    Returns:
        Name → value of the task object's fields on columns and formats.
    """
    check_path(source, "trained_options: `source`")
    export = find_export(source)
    if export is None:
        return reading_fields(describe_maker(local_source(source) or source))
    card = read_json(export / "card.json") if (export / "card.json").is_file() else {}
    return reading_fields(card.get("made_by", {}).get("run"))
