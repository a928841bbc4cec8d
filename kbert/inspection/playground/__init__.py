"""The playground: what BERT is trained on and what models answer, as a page or as TensorBoard's tab.

Importing this costs nothing: TensorFlow is imported when a page first asks for something.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
