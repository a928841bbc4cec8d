"""The paper's tables as experiments: pre-trainings and fine-tunings, shared between rows, with a verdict for each."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Downstream": "downstream",
        "Row": "table",
        "Study": "study",
        "Table": "table",
        "downstream_tasks": "downstream",
        "paper_table": "paper_tables",
        "run_table": "run_table",
    },
)
