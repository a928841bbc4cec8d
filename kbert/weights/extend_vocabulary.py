"""Words of a domain added to the vocabulary of a model.

Shapes: V vocabulary, H hidden.
"""

import dataclasses
import re
from typing import TYPE_CHECKING

import numpy as np
from keras import ops

from kbert.config import BertConfig
from kbert.models.lora import merged
from kbert.models.quantized_layers import check_not_quantized
from kbert.text.special_tokens import tokens_in_text
from kbert.text.tokenizer import BertTokenizer
from kbert.weights.description import ModelDescription

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel

_UNUSED = re.compile(r"\[unused\d+\]")
_BY_TOKEN = (  # the variables with a row for each token, [V, H] or [V]
    "embeddings/token_embedding/embeddings",
    "masked_lm_head/output_embeddings",
    "masked_lm_head/output_bias",
)


def extend_vocabulary(
    model: "BertModel", words: list[str] | tuple[str, ...] = (), special_tokens: list[str] | tuple[str, ...] = ()
) -> "BertModel":
    """A copy of a model for which each of these words, or special tokens of your own, is one token.

    A word takes the place of an [unused0], [unused1] … of the vocabulary, as BERT's have them, or, where none is left,
    a new row at the end of the table. Its row is the mean of its former pieces' rows, or [UNK]'s row where it had none.
    All other weights and ids stay. Longer words that begin with a new one are split after it. Continue the pre-training
    on text of the domain, so that the new rows learn.

    Args:
        model: a model of any task that was loaded with its tokenizer (`kbert.load_pretrained`). It is not changed; LoRA
            is merged in the copy.
        words: each a word as the tokenizer splits text: without white space or punctuation and, for an uncased
            tokenizer, in lower case. Words that are tokens already are left out.
        special_tokens: tokens of your own, such as ``["[E1]", "[/E1]"]`` around an entity. They are read in texts
            exactly as written, whatever characters they have, and never masked in pre-training
            (`special_tokens_in_text` of the tokenizer, which is stored with the model). They may be tokens already,
            such as ``"[unused1]"``.

    Returns:
        The new model; ``pretrained.tokenizer`` has the new vocabulary.

    Raises:
        TypeError: `words` or `special_tokens` is not a list of str.
        ValueError: a model without a tokenizer, a quantised model, or a word that the tokenizer would not give as one
            token.

    Example::

        model = kbert.load_pretrained("bert-base-uncased", task="pretraining")
        model = kbert.weights.extend_vocabulary(model, ["angioplasty", "stent"])
        kbert.pretrain("medical/*.txt", init=model, steps=10_000, output="runs/medical")
    """
    for name, value in (("words", words), ("special_tokens", special_tokens)):
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            raise TypeError(f"extend_vocabulary: `{name}` must be a list of str. Received: {value!r:.80}")
    if model.pretrained is None or model.pretrained.tokenizer is None:
        raise ValueError("extend_vocabulary: expected a model loaded with its tokenizer. Received: one without")
    check_not_quantized(model)
    pretrained = model.pretrained
    model = merged(model)
    old = pretrained.tokenizer
    vocabulary = old.vocabulary
    present = set(vocabulary)
    words = [word for word in dict.fromkeys([*words, *special_tokens]) if word not in present]
    read = dict.fromkeys([*tokens_in_text(old.special_tokens_in_text), *special_tokens])
    unused = [i for i, token in enumerate(vocabulary) if _UNUSED.fullmatch(token) and token not in read]
    ids = (unused + list(range(len(vocabulary), len(vocabulary) + len(words))))[: len(words)]
    vocabulary += [""] * (max([len(vocabulary) - 1, *ids]) + 1 - len(vocabulary))
    for word, i in zip(words, ids, strict=True):
        vocabulary[i] = word
    settings = old.settings() | ({"special_tokens_in_text": list(read)} if special_tokens else {})
    tokenizer = BertTokenizer(vocabulary, **settings)
    _check_words(tokenizer, words, ids)
    pieces = old(words).to_list() if words else []
    description = ModelDescription.from_model(model)
    fields = description.config.to_dict() | {"vocabulary_size": len(vocabulary)}
    extended = dataclasses.replace(description, config=BertConfig.from_dict(fields)).build(model.dtype_policy)
    values = {variable.path: ops.convert_to_numpy(variable) for variable in model.weights}
    for variable in extended.weights:
        value = values[variable.path]
        if variable.path in _BY_TOKEN:
            value = _with_rows(value, len(vocabulary), ids, [of_word or [old.unk_id] for of_word in pieces])
        variable.assign(value)
    extended.pretrained = dataclasses.replace(pretrained, tokenizer=tokenizer)
    return extended


def _check_words(tokenizer, words, ids):
    for word, i, read_as in zip(words, ids, tokenizer(words).to_list() if words else [], strict=True):
        if read_as != [i]:
            pieces = [tokenizer.id_to_token(piece) for piece in read_as]
            raise ValueError(
                "extend_vocabulary: expected words as the tokenizer splits text, without white space or punctuation "
                f"and in its letter case. Received: {word!r}, which it reads as {pieces}"
            )


def _with_rows(value, size, ids, pieces):
    rows = np.concatenate([value, np.zeros((size - len(value), *value.shape[1:]), value.dtype)])
    for i, of_word in zip(ids, pieces, strict=True):
        rows[i] = value[of_word].astype("float32").mean(axis=0)
    return rows
