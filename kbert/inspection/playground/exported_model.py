"""A SavedModel of `kbert.export` as the views use it: it gives what its signatures give."""

from kbert.inspection.playground.request_fields import BadRequest
from kbert.serving.exported_pipeline import ExportedPipeline


class ExportedModel:
    """The signatures of a SavedModel of `kbert.export`, given by the directory of a version or model."""

    def __init__(self, directory):
        self.exported = ExportedPipeline(directory)

    @property
    def task(self) -> str:
        return self.exported.task

    def check_task(self, *tasks: str) -> None:
        """Raises BadRequest unless the model is of one of these tasks."""
        if self.task not in tasks:
            raise BadRequest(
                f"Expected a model of the task {' or '.join(tasks)}. Received: a SavedModel of the task {self.task}"
            )

    def answer(self, columns, signature: str = "serving_default") -> dict:
        """The outputs of a signature for one row of strings, arrays with the first dimension 1.

        BadRequest says that the row is beyond the export's limits, or that there is no such
        signature.
        """
        if signature not in self.exported.signatures:
            raise BadRequest(
                f"Expected a SavedModel with the signature {signature}. Received: one with "
                f"{', '.join(self.exported.signatures)}"
            )
        columns = {name: [text] for name, text in columns.items()}
        return self.exported.predict_on_batch(columns, signature)
