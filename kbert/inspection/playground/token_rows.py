"""Texts → the row of tokens that a model reads, as tensors and as JSON.

Shapes: S sequence.
"""

import tensorflow as tf

from kbert.inspection.playground.request_fields import BadRequest
from kbert.tasks.encoder import token_list

_SHORTEST = 5  # tokens: [CLS], two [SEP] and a token of each text


def read_row(model, text: str, text_pair: str | None, longest: int | None = None):
    """The row of a text or pair without padding: (tokens, batch, truncated).

    `tokens` are dicts; their ``start`` and ``end`` are code points of the text (of `text_pair` in
    segment 1), None for [CLS] and [SEP]. `batch` has ``token_ids``, ``segment_ids`` int32 [1, S]
    and ``padding_mask`` bool [1, S]. `truncated` is how many tokens beyond `longest` did not fit.
    None: the model's maximum.
    """
    size = min(model.max_length, longest or model.max_length)
    if size < _SHORTEST:
        raise BadRequest(f"Expected a model of at least {_SHORTEST} positions. Received: {size}")
    texts = {"text": text} if text_pair is None else {"text": text, "text_pair": text_pair}
    columns = {name: tf.constant([value]) for name, value in texts.items()}
    listed = token_list(model.preprocessor(size, text_pair is not None), columns)
    count = int(listed["count"][0])
    names = ("tokens", "token_ids", "segment_ids", "starts", "ends")
    rows = zip(*(listed[name][0, :count].numpy().tolist() for name in names), strict=True)
    tokens = [
        token_object(position, token.decode(), token_id, segment, start, end)
        for position, (token, token_id, segment, start, end) in enumerate(rows)
    ]
    batch = {name: listed[name][:, :count] for name in ("token_ids", "segment_ids")}
    batch["padding_mask"] = tf.ones([1, count], tf.bool)
    truncated = 0
    if count == size:  # otherwise nothing was truncated
        whole = sum(int(model.tokenizer(column).row_lengths()[0]) for column in columns.values())
        truncated = whole + len(columns) + 1 - size
    return tokens, batch, truncated


def token_object(position: int, token: str, token_id: int, segment: int, start: int = -1, end: int = -1) -> dict:
    """A token as JSON; `start` and `end` are -1 for tokens that are in no text."""
    start, end = (None, None) if start < 0 else (start, end)
    return {"position": position, "token": token, "id": token_id, "segment": segment, "start": start, "end": end}
