"""Pairs, labels and truncation are those of the training, the verdict is the model's."""

import pytest
import tensorflow as tf
from helpers.served_models import make_pipeline
from helpers.tiny_bert import tiny_tokenizer

from kbert.corpus.pool import make_pool
from kbert.inspection.views.pairs import draw_pair
from kbert.pretraining.pairs import sentence_pairs
from kbert.text.packing import pack_ranges

DOCUMENT = "The film is good. It was never very bad! A\ncapital of France.\n\nParis is the film. The film was good."
OTHER = "London is a capital.\n\n\u200d\n\nThe capital was never good."
SENTENCES = [
    [
        "The film is good.",
        "It was never very bad!",
        "A capital of France.",
        "Paris is the film.",
        "The film was good.",
    ],
    ["London is a capital.", "The capital was never good."],
]


def draw(document=DOCUMENT, model=None, **options):
    return draw_pair(tiny_tokenizer(), (document, OTHER), model, **options)


def test_pairs_are_those_of_training():
    tokenizer = tiny_tokenizer()
    pool = make_pool(
        tokenizer(tf.constant([sentence for document in SENTENCES for sentence in document])),
        tf.constant([5, 2]),
        tf.constant([0, 1], tf.int64),
    )
    special = {name: getattr(tokenizer, name) for name in ("cls_id", "sep_id", "pad_id")}
    labels = set()
    for seed in range(8):
        pair = draw(seed=seed, sequence_length=13, short_rate=0.5)
        table = sentence_pairs(pool, seed, 0, 13 - 3, short_sequence_rate=0.5)
        batch = pack_ranges(pool.token_ids, *(column[:1] for column in table[:4]), sequence_length=13, **special)
        size = int(tf.reduce_sum(tf.cast(batch["padding_mask"], tf.int32)))
        assert pair.tokens == [tokenizer.vocabulary[n] for n in batch["token_ids"][0, :size].numpy()]
        assert pair.segments == batch["segment_ids"][0, :size].numpy().tolist()
        assert pair.label == ("NotNext" if table.is_random[0] else "IsNext")
        labels.add(pair.label)
    assert labels == {"IsNext", "NotNext"}


@pytest.mark.parametrize("seed", range(4))
def test_the_sentences_hold_the_row_and_the_steps_count_what_is_lost(seed):
    tokenizer = tiny_tokenizer()
    pair = draw(seed=seed, sequence_length=13)
    assert pair.sentences == SENTENCES and pair.first[0] == 0 and pair.is_next is None
    chosen = [SENTENCES[0][n] for n in pair.first], [SENTENCES[pair.document][n] for n in pair.second]
    lost = 0
    for segment, sentences in enumerate(chosen):
        pieces = [tokenizer.vocabulary[n] for n in tokenizer(sentences).flat_values.numpy()]
        row = zip(pair.tokens, pair.segments, strict=True)
        kept = [token for token, of in row if of == segment and token not in ("[CLS]", "[SEP]")]
        assert any(pieces[n : n + len(kept)] == kept for n in range(len(pieces)))
        lost += len(pieces) - len(kept)
    assert (f"Together they have {lost} token" in pair.steps[-1]) if lost else ("Both fit" in pair.steps[-1])


@pytest.mark.parametrize("seed", range(3))
def test_the_requested_label_keeps_a(seed):
    drawn, is_next, not_next = (
        draw(seed=seed, label=label, sequence_length=40) for label in (None, "IsNext", "NotNext")
    )
    assert (is_next.label, not_next.label) == ("IsNext", "NotNext")
    assert drawn.first == is_next.first == not_next.first
    assert (is_next.document, is_next.second[0]) == (0, is_next.first[-1] + 1)
    same = is_next if drawn.label == "IsNext" else not_next
    assert (drawn.tokens, drawn.second) == (same.tokens, same.second)
    assert any(step.startswith("You chose NotNext: B ") for step in not_next.steps)
    assert any(step.startswith("The coin says") for step in drawn.steps)


def test_the_verdict_is_the_models():
    model = make_pipeline("fill_mask")[0].model
    pair = draw(model=model, seed=2, sequence_length=19)
    vocabulary = tiny_tokenizer().vocabulary
    ids = tf.constant([[vocabulary.index(token) for token in pair.tokens]])
    batch = {"token_ids": ids, "segment_ids": tf.constant([pair.segments]), "padding_mask": ids >= 0}
    expected = tf.nn.softmax(model(batch | {"mask_positions": ids[:, :1] * 0})["nsp_logits"])[0, 0]
    assert pair.is_next == pytest.approx(float(expected), abs=1e-6)


def test_one_sentence_has_no_next_one():
    pair = draw("The film is good.", label="IsNext")
    assert pair.label == "NotNext" and any("Nothing is left for B" in step for step in pair.steps)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"document": " \n\u200d"}, "Document 1 must have at least one sentence"),
        ({"label": "Next"}, 'must be "IsNext", "NotNext" or None. Received: \'Next\''),
        ({"sequence_length": 4}, "must be at least 5. Received: 4"),
    ],
)
def test_wrong_input_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        draw(**options)
