"""Fine-tuning, evaluation and predictions of models of a task."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
