"""Strings → batch: what all preprocessors share, and those with a row of tokens for each text or choice.

Shapes: B batch, C choices, S sequence.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import keras
import tensorflow as tf

import kbert.text.tokenizer  # noqa: F401  registers BertTokenizer, so that configs that hold one can be read
from kbert.checks import check_option
from kbert.keras_compat import deserialize, pass_inputs_unchanged
from kbert.options import Count
from kbert.preprocessing.strings import string_columns
from kbert.text.packing import content_length, pack

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


def tokens_of(shape: str) -> dict[str, str]:
    """The `outputs` that every batch has."""
    return {"token_ids": f"int32 {shape}", "segment_ids": f"int32 {shape}", "padding_mask": f"bool {shape}"}


class Preprocessor(keras.layers.Layer):
    """A layer that keeps a tokenizer and packs tokens into rows of a static length.

    It works eagerly, in tf.data and on symbolic inputs. A subclass has `call` and `outputs`.

    Args:
        tokenizer: `kbert.BertTokenizer`.
        sequence_length: S, static.
        **kwargs: name, dtype, trainable.

    Attributes:
        input_names: the string columns that a call takes.
        list_columns: the columns among them that hold several strings per row, [B, C].
        outputs: the entries of a batch: name → type and shape, such as "int32 B S".
        pair: whether a row has a second text.
        makes_windows: whether a call takes `max_windows`, and a long text becomes several rows.
        makes_labels: whether the labels of `fit` are made from the texts, by `training_batches`.
        option_names: arguments of the constructor that are stored with the model, under these names.

    Raises:
        ValueError: a `sequence_length` that is not a positive integer.
    """

    input_names: tuple[str, ...] = ("text",)
    list_columns: tuple[str, ...] = ()
    outputs: Mapping[str, str] = {}
    pair: bool = False
    makes_windows: bool = False
    makes_labels: bool = False
    option_names: tuple[str, ...] = ()

    def __init__(self, tokenizer: "BertTokenizer", sequence_length: int, **kwargs):
        super().__init__(**kwargs)
        self.sequence_length = check_option(type(self).__name__, "sequence_length", sequence_length, Count)
        self.tokenizer = tokenizer
        pass_inputs_unchanged(self)  # lists of strings are welcome, and strings stay with TensorFlow
        self.supports_jit = False  # XLA has no strings

    @property
    def special_ids(self) -> dict[str, int]:
        """The ids that packing needs, as arguments of `kbert.text.pack_ranges`."""
        return {"cls_id": self.tokenizer.cls_id, "sep_id": self.tokenizer.sep_id, "pad_id": self.tokenizer.pad_id}

    def settings(self) -> dict[str, Any]:
        """What is stored with the model, by the names of the task object's fields."""
        options = {name: getattr(self, name) for name in self.option_names}
        return {"sequence_length": self.sequence_length, **options, "tokenizer": self.tokenizer.settings()}

    def string_signature(self) -> dict[str, tf.TensorSpec]:
        """The inputs as ``tf.TensorSpec``, for exporting: string [None] each, list columns [None, None]."""
        shapes = {name: [None, None] if name in self.list_columns else [None] for name in self.input_names}
        return {name: tf.TensorSpec(shape, tf.string, name=name) for name, shape in shapes.items()}

    def compute_output_spec(
        self, inputs: Mapping[str, keras.KerasTensor] | keras.KerasTensor, max_windows: int | None = None
    ) -> dict[str, keras.KerasTensor]:
        # Not by Keras, which would call the tokenizer: while a pipeline is loaded it has no vocabulary yet.
        columns = [inputs[name] for name in self.input_names] if isinstance(inputs, dict) else [inputs]
        sizes = {"B": columns[0].shape[0], "C": columns[-1].shape[-1], "S": self.sequence_length}
        specs = {}
        for name, described in self.outputs.items():
            dtype, *shape = described.split()
            specs[name] = keras.KerasTensor([sizes.get(letter) for letter in shape], dtype=dtype)
        return specs

    def get_config(self) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in ("tokenizer", "sequence_length", *self.option_names)}
        return {**super().get_config(), **options}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**{**config, "tokenizer": deserialize(config["tokenizer"])})


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

    outputs = tokens_of("B S")
    option_names = ("pair",)

    def __init__(self, tokenizer: "BertTokenizer", sequence_length: int = 128, pair: bool = False, **kwargs):
        super().__init__(tokenizer, sequence_length, **kwargs)
        self.pair = check_option("TextPreprocessor", "pair", pair, bool)
        content_length(sequence_length, 2 if pair else 1)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the string columns that a call takes."""
        return ("text", "text_pair") if self.pair else ("text",)

    def call(self, inputs: Any) -> dict[str, tf.Tensor]:
        columns = string_columns(inputs, self.input_names, type(self).__name__)
        batch = pack([self.tokenizer.call(column) for column in columns], self.sequence_length, **self.special_ids)
        for tensor in batch.values():
            tensor.set_shape(columns[0].shape.concatenate(self.sequence_length))  # ragged tensors do not know B
        return batch


@keras.saving.register_keras_serializable("kbert")
class ChoicePreprocessor(Preprocessor):
    """Tokenises a prompt and its choices, and packs a row ``[CLS] prompt [SEP] choice [SEP]`` for each choice.

    A pair that does not fit loses tokens at the end of its longer text, so a choice is only
    truncated if it is longer than the prompt. Questions with fewer choices than others in the batch
    are filled up with empty strings. A string without tokens, empty or blank, is not a choice: its
    whole row is padding, and `kbert.BertMultipleChoice` gives it no probability.

    Args:
        tokenizer: `kbert.BertTokenizer`.
        sequence_length: S, static.
        **kwargs: name, dtype, trainable.

    Inputs:
        inputs: dict of ``prompt``, strings [B], and ``choices``, strings [B, C]; C may vary. Lists
            of choices may differ in length. Other entries are ignored.

    Outputs:
        dict of ``token_ids`` int32 [B, C, S], ``segment_ids`` int32 [B, C, S], ``padding_mask``
        bool [B, C, S].

    Raises:
        ValueError: a missing column, a column of a wrong shape, a sequence length too short for two
            texts.
        TypeError: columns that do not hold strings.

    Source: Devlin et al. 2018, section 4.4.

    Example::

        preprocessor = ChoicePreprocessor(kbert.BertTokenizer("vocab.txt"), sequence_length=64)
        batch = preprocessor({"prompt": ["A drum line"], "choices": [["passes by.", "is asleep.", "sings."]]})
        batch["token_ids"].shape  # (1, 3, 64)
    """

    input_names = ("prompt", "choices")
    list_columns = ("choices",)
    outputs = tokens_of("B C S")

    def __init__(self, tokenizer: "BertTokenizer", sequence_length: int = 128, **kwargs):
        super().__init__(tokenizer, sequence_length, **kwargs)
        content_length(sequence_length, 2)

    def call(self, inputs: Any) -> dict[str, tf.Tensor]:
        prompt, choices = string_columns(inputs, self.input_names, type(self).__name__, self.list_columns)
        rows, width = tf.unstack(tf.shape(choices))
        prompt_ids = self.tokenizer.call(prompt)[:, : self.sequence_length]  # more would be truncated
        choice_ids = self.tokenizer.call(tf.reshape(choices, [-1]))  # ragged [B * C, None]
        prompt_ids = tf.gather(prompt_ids, tf.repeat(tf.range(rows), width))
        batch = pack([prompt_ids, choice_ids], self.sequence_length, **self.special_ids)
        is_choice = (choice_ids.row_lengths() > 0)[:, tf.newaxis]
        batch = {
            "token_ids": tf.where(is_choice, batch["token_ids"], self.tokenizer.pad_id),
            "segment_ids": tf.where(is_choice, batch["segment_ids"], 0),
            "padding_mask": is_choice & batch["padding_mask"],
        }
        shape = (rows, width, self.sequence_length)
        batch = {name: tf.reshape(tensor, shape) for name, tensor in batch.items()}  # [B, C, S]
        for tensor in batch.values():
            tensor.set_shape((*choices.shape, self.sequence_length))
        return batch
