"""Strings → batch, for every task with one text or a pair of texts.

Shapes: B batch, S sequence.
"""

import keras

from kbert.checks import check_bool
from kbert.preprocessing.preprocessor import Preprocessor
from kbert.preprocessing.strings import string_columns
from kbert.text.packing import content_length, pack


@keras.saving.register_keras_serializable("kbert")
class TextPreprocessor(Preprocessor):
    """Tokenises texts and packs them into ``[CLS] text [SEP]`` or ``[CLS] text [SEP] text_pair [SEP]``.

    This is the only definition of this step: the training data, `Pipeline.predict` and the exported
    SavedModel run this layer. It works eagerly, in tf.data and on symbolic inputs. A text that does
    not fit is truncated at its end. Of a pair the longer text is truncated, token by token (see
    `kbert.text.pack`). Empty texts are valid. Bytes that are not UTF-8 are treated as the tokenizer
    does.

    Args:
        tokenizer: `kbert.BertTokenizer`.
        sequence_length: S, static.
        pair: whether the texts come in pairs.
        **kwargs: name, dtype, trainable.

    Inputs:
        inputs: dict of string columns [B]: ``text``, and ``text_pair`` if `pair`. Single texts may
            be passed without the dict. All columns are tensors, or all are NumPy arrays or lists.
            Other entries are ignored.

    Outputs:
        dict of ``token_ids`` int32 [B, S], ``segment_ids`` int32 [B, S], ``padding_mask`` bool [B,
        S].

    Raises:
        ValueError: a missing column, a single string, a sequence length too short for text.
        TypeError: columns that do not hold strings.

    Source: Devlin et al. 2018, section 3 and 4; google-research/bert run_classifier.py,
    ``convert_single_example``.

    Example::

        preprocessor = TextPreprocessor(kbert.BertTokenizer("vocab.txt"), sequence_length=64, pair=True)
        batch = preprocessor({"text": ["How old are you?"], "text_pair": ["I am 27."]})
        batch["token_ids"].shape  # (1, 64)
    """

    option_names = ("pair",)

    def __init__(self, tokenizer, sequence_length=128, pair=False, **kwargs):
        super().__init__(tokenizer, sequence_length, **kwargs)
        self.pair = check_bool(pair, "TextPreprocessor: `pair`")
        content_length(sequence_length, 2 if pair else 1)

    @property
    def input_names(self):
        """Names of the string columns that a call takes."""
        return ("text", "text_pair") if self.pair else ("text",)

    def call(self, inputs):
        columns = string_columns(inputs, self.input_names, type(self).__name__)
        batch = pack([self.tokenizer.call(column) for column in columns], self.sequence_length, **self.special_ids)
        for tensor in batch.values():
            tensor.set_shape(columns[0].shape.concatenate(self.sequence_length))  # ragged tensors do not know B
        return batch

    def compute_output_spec(self, inputs):
        column = inputs[self.input_names[0]] if isinstance(inputs, dict) else inputs
        return self.batch_spec(column.shape[0])
