"""How the heads of an encoder follow annotated sentences.

Shapes: S sequence, w words, L layers, A heads.
"""

import numpy as np

from kbert.inspection.analysis.attention_heads import entity_attention, head_accuracy, word_attention
from kbert.inspection.analysis.states import encoder_with_attention, states_and_attention
from kbert.inspection.labelled_data import LabelledWords

_SENTENCES = 200  # of several words; more would hardly change the shares


def heads_and_words(encoder, tokenizer, data: LabelledWords, sequence_length: int = 128) -> dict:
    """Agreement of the heads with syntax and entities: ``syntax``, ``entities``, as far as `data` has them.

    Sentences that do not fit into a window are skipped.
    """
    if data.tags is None and data.heads is None:
        return {}
    attention, rows, encoder = [], [], encoder_with_attention(encoder)
    length = min(sequence_length, encoder.config.max_sequence_length)
    for row, words in enumerate(data.words):
        if len(rows) == _SENTENCES:
            break
        pieces = [ids or [tokenizer.unk_id] for ids in tokenizer(list(words)).to_list()]
        ids = [tokenizer.cls_id, *(n for piece in pieces for n in piece), tokenizer.sep_id]
        if len(words) < 2 or len(ids) > length:
            continue
        word_of_token = np.array([-1, *(n for n, piece in enumerate(pieces) for _ in piece), -1])
        ids = np.array([ids], "int32")
        batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": np.ones(ids.shape, bool)}
        attention.append(word_attention(states_and_attention(encoder, batch)[1], word_of_token))
        rows.append(row)
    found = {}
    if attention and data.heads is not None:
        found["syntax"] = head_accuracy(attention, [data.heads[row] for row in rows])
    if attention and data.tags is not None:
        entities = entity_attention(attention, [data.tags[row] for row in rows])
        if entities["words"]:
            found["entities"] = entities
    return found
