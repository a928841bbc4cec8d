"""Documents → sentence pairs → masked batches, and their statistics; `kbert.pretrain` is in `run/pretrain.py`."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
