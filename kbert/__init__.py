"""kbert: a Keras 3 library to pre-train, fine-tune and serve BERT (Devlin et al. 2018).

The public names below, and subpackages such as ``kbert.layers``, are resolved on first use, so that ``import kbert``
costs nothing and the model side (config, layers, optim, models) never pulls in TensorFlow. If TensorFlow is imported
after kbert, its C++ log is off, except for a few lines that it writes while it is imported. The environment variable
``TF_CPP_MIN_LOG_LEVEL=0`` turns it on.
"""

import os

import lazy_loader as lazy

from kbert.saved_classes import register_saved_classes

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
register_saved_classes()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read by TensorFlow when it is imported

import kbert.tasks  # noqa: E402, F401  imported last: registers the built-in tasks
