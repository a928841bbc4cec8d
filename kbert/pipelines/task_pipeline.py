"""What kbert needs to know about a task to build, store, load, export and serve its models."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kbert.pipelines.settings import DEFAULT_SEQUENCE_LENGTH, ModelSettings, default_labels
from kbert.pipelines.task_signature import example_rows


class TaskPipeline:
    """The interface of a task; each ``kbert/tasks/<word>/pipeline.py`` holds one object of a subclass, ``PIPELINE``.

    Attributes:
        task: the word, ``model.task``.
        model_class: subclass of `kbert.models.BertModel`.
        model_arguments: arguments of `model_class` for this task.
        stands_on_encoder: whether the model is a head on a `kbert.BertEncoder` (all are, except the encoder itself).
        options: names of what `kbert.build_pipeline` takes for it besides ``sequence_length``.
        defaults: values of options that `kbert.pipelines.ModelSettings` has no field for.
        default_length: tokens of a text by default.
        heads: the model's layers besides its encoder, as the first parts of the paths of their variables.
        head_variables: path → letters of the shape, for variables of `heads` that no other library's format holds;
            the letters are those of `kbert.weights.formats.name_table`.
        prediction_options: options for prediction files, if they differ from those of a pipeline.

    Raises:
        NotImplementedError: `parts` of a subclass that does not define it.
        ValueError: `exported_answers` of such a one, or labels that do not suit the model.

    Example::

        class DuplicatesPipeline(TaskPipeline):
            task, model_class, options, heads = "duplicates", BertDuplicates, ("pair",), ("duplicates_head",)

            def parts(self, model, tokenizer, settings):
                return TextPreprocessor(tokenizer, settings["sequence_length"], pair=True), DuplicatesAnswers()

        PIPELINE = DuplicatesPipeline()
    """

    task: str
    model_class: type
    model_arguments: Mapping[str, Any] = {}
    stands_on_encoder: bool = True
    options: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}
    default_length: int = DEFAULT_SEQUENCE_LENGTH
    heads: tuple[str, ...] = ()
    head_variables: Mapping[str, str] = {}
    prediction_options: Mapping[str, Any] = {}

    def parts(self, model, tokenizer, settings: dict[str, Any]):
        """Preprocessor and answers of a pipeline.

        Args:
            model: of `model_class`.
            tokenizer: `kbert.BertTokenizer` of the model's vocabulary.
            settings: ``sequence_length`` and the values of `options`.

        Returns:
            (`kbert.preprocessing.Preprocessor`, `kbert.answers.Answers`).
        """
        raise NotImplementedError

    def option_values(self, settings: ModelSettings) -> dict[str, Any]:
        """``sequence_length`` and the values of `options` in these settings."""
        return {name: settings.get(name, self.defaults.get(name)) for name in ("sequence_length", *self.options)}

    def check_options(self, given: Collection[str], settings: Mapping[str, Any]) -> None:
        """Raises ValueError where options contradict each other.

        Args:
            given: names of those that were given, and are not as stored or by default.
            settings: as of `parts`.
        """

    def signatures(self, pipeline) -> dict:
        """The signatures of a served model besides the pipeline itself: name → `TaskSignature`.

        A subclass may take more arguments: those of `kbert.export` that only this task has.
        """
        return {}

    def exported_answers(self, labels: list[str] | None, outputs: frozenset[str]):
        """The answers of an export, for the methods `to_dicts` and `table_row`.

        Args:
            labels: as stored in the export's card.
            outputs: names of the outputs of ``serving_default``.

        Returns:
            `kbert.answers.Answers`.

        Raises:
            ValueError: a task from outside kbert that has no such answers.
        """
        raise ValueError(f"Expected a task whose exports answer files. Received: {self.task}")

    def values_per_row(self, pipeline) -> int:
        """The number of floats of the pipeline's largest output or intermediate result for a row of S tokens."""
        return 1

    def example_rows(self, names: tuple[str, ...]) -> list[dict]:
        """Requests of one row each for these columns, a short one first; for warm-up and the model card."""
        return example_rows(names)

    def read_columns(self, path, columns: Mapping[str, str]) -> Mapping[str, Sequence] | None:
        """Reads a file of inputs without labels, for predictions. A subclass may take more arguments about its format.

        Args:
            path: the file.
            columns: input of the pipeline → column of the file.

        Returns:
            Column → values; None: the file is a table, or has one text per line.
        """
        return None

    def default_sequence_length(self, longest: int) -> int:
        """Tokens of a text by default, at most `longest`."""
        return min(self.default_length, longest)

    def labels(self, model, settings) -> list[str]:
        """The labels of the settings, by default "0", "1", ...

        Raises:
            ValueError: not as many labels as the model has logits.
        """
        labels = settings["labels"]
        if labels is None:
            labels = default_labels(model.num_labels)[0]
        if len(labels) != model.num_labels:
            raise ValueError(
                f"build_pipeline: expected {model.num_labels} labels, as many as logits. Received: {labels}"
            )
        return labels
