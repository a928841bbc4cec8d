"""Documents → sentence pairs → masked batches, and their statistics; `kbert.pretrain` is in `run/pretrain.py`."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
