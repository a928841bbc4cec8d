"""A SavedModel of `kbert.export`, asked in this process like the pipeline that was exported."""

import hashlib

import numpy as np
import tensorflow as tf

from kbert.checks import check_path
from kbert.files import read_json, sha256
from kbert.pipelines.registry import task_pipeline
from kbert.preprocessing.strings import as_text, string_columns
from kbert.serving.audit import audit
from kbert.serving.saved_model_file import find_export


class ExportedPipeline:
    """The signature ``serving_default`` of an export, with the answers of its task.

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
            to; it is audited before it is loaded, since loading runs its graph.
    """

    def __init__(self, directory):
        import tensorflow_text  # noqa: F401  registers the ops of tokenizers

        self.path = find_export(check_path(directory, "ExportedPipeline: `directory`"))
        if self.path is None:
            raise FileNotFoundError(f"Expected a SavedModel, such as saved_models/NAME/1. Received: {directory}")
        try:
            card = read_json(self.path / "card.json")
            self.task, self.parameters, labels = card["task"], card["parameters"], card["labels"]
            served = card["signatures"]["serving_default"]
            self.input_names = tuple(served["example"]["body"]["inputs"])  # in their order
            self.max_rows = served["max_rows"]
        except (FileNotFoundError, KeyError, TypeError):
            raise ValueError(f"Expected a SavedModel of kbert.export, with card.json. Received: {self.path}") from None
        audit(self.path).require_clean()
        self._saved_model = tf.saved_model.load(str(self.path))  # kept: the signatures do not keep it
        self.signatures = tuple(sorted(self._saved_model.signatures))
        self.output = self._saved_model.signatures["serving_default"].structured_outputs
        self.answers = task_pipeline(self.task).exported_answers(labels, frozenset(self.output))

    def predict_on_batch(self, inputs, signature="serving_default") -> dict[str, np.ndarray]:
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
        names = self.input_names if set(specs) == set(self.input_names) else tuple(sorted(specs))
        list_columns = tuple(name for name, spec in specs.items() if spec.shape.rank == 2)
        takes = f" (serialised tf.Examples of {list(self.input_names)})" if set(specs) == {"inputs"} else ""
        owner = f"signature {signature!r}{takes}"
        columns = string_columns(inputs, names, f"ExportedPipeline, {owner}", list_columns)
        try:
            answers = function(**dict(zip(names, columns, strict=True)))
        except tf.errors.InvalidArgumentError as error:
            lines = [line for line in error.message.splitlines() if line and not line.startswith("\t [[")]
            reason = next((line for line in lines if "Received: " in line), lines[-1])
            raise ValueError(f"{self.path}, {owner}: {reason.strip()}{_advice(reason)}") from None
        return {name: as_text(answer.numpy()) for name, answer in answers.items()}

    def fingerprint(self) -> str:
        """A hash of the graph and the weights."""
        files = [self.path / "saved_model.pb", *sorted((self.path / "variables").glob("*"))]
        return hashlib.sha256("".join(sha256(file) for file in files).encode()).hexdigest()


def _advice(reason):
    """What helps against a limit on requests, besides what the graph itself says."""
    return " predict.py sends fewer at once with a smaller --batch-size." if "A request may hold" in reason else ""
