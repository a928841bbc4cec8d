"""Names for what many public functions accept."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import keras

    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.tasks.examples import Examples
    from kbert.text.tokenizer import BertTokenizer

    Callbacks = keras.callbacks.Callback | Sequence[keras.callbacks.Callback]  # in quotes, where it is an annotation

PathLike = str | os.PathLike

# A path, a name on the Hugging Face hub, or a model in memory: what `load_pretrained` or `build_pipeline` takes.
# A class in quotes is not imported. Type checkers know it, and for `check_option` any value but a number is one.
ModelSource = Union[str, os.PathLike, "BertModel", "Pipeline"]

# A file, or rows in memory: a dict of columns, a list of dicts or tuples, a DataFrame, a tf.data.Dataset, a Hugging
# Face Dataset.
ExampleData = Union[str, os.PathLike, "Examples", Iterable[Any]]

# A vocab.txt, the tokens, or a tokenizer.
VocabularySource = Union[str, os.PathLike, "BertTokenizer", Iterable[str]]
