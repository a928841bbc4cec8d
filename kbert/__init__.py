"""kbert: a Keras 3 library to pre-train, fine-tune and serve BERT (Devlin et al. 2018).

The public names below, and subpackages such as ``kbert.layers``, are resolved on first use, so that ``import kbert``
costs nothing and the model side (config, layers, optim, models) never pulls in TensorFlow. Where TensorFlow is imported
after kbert, its start-up messages are hidden; the environment variable ``TF_CPP_MIN_LOG_LEVEL=0`` shows them.
"""

import lazy_loader as lazy

from kbert.import_hooks import explain_legacy_keras, quiet_tensorflow, register_saved_classes

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
register_saved_classes()
quiet_tensorflow()
explain_legacy_keras()

import kbert.tasks  # noqa: E402, F401  the last room, which registers its tasks for those before it
