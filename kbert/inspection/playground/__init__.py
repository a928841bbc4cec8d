"""The playground: what BERT is trained on and what models answer, as a page or as TensorBoard's tab.

Importing this costs nothing: TensorFlow is imported when a page first asks for something.
"""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
