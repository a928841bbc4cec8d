"""The view of next sentence prediction: how a pair and its label are made, and a model's verdict.

Shapes: S sequence, n sentences of two documents, p pairs.
"""

from typing import NamedTuple

import tensorflow as tf

from kbert.answers.pretraining import NextSentenceAnswers
from kbert.corpus.documents import prose_sentences
from kbert.corpus.pool import TokenPool, make_pool
from kbert.inspection.playground.pair_steps import describe_steps
from kbert.inspection.playground.plain_values import rounded
from kbert.inspection.playground.request_fields import BadRequest
from kbert.inspection.playground.token_rows import token_object
from kbert.pretraining.pairs import PairSentences, PairTable, max_pair_tokens, pair_sentences, sentence_pairs
from kbert.text.packing import pack_ranges

FIELDS = ("document", "other", "seed", "max_length", "short_rate", "label")
_SHORTEST = 5  # tokens of a row with a pair
# Requested label → how often B is random.
_RANDOM_NEXT_RATES = {None: 0.5, "IsNext": 0.0, "NotNext": 1.0}


class Drawn(NamedTuple):
    """The first pair of the first document, with where it comes from.

    `sentences` are the ones of both documents that have tokens. `table` and `ranges` are the
    `PairTable` and `PairSentences` with the first pair alone, as int and bool.
    """

    sentences: list[list[str]]
    pool: TokenPool
    table: PairTable
    ranges: PairSentences


def next_sentence(models, fields) -> dict:
    """Makes the first pair of a document with the functions of the training data.

    The sequence length is at most the model's. ``label``, "IsNext" or "NotNext", replaces the coin
    that decides whether B is random: A stays as it is.

    Source: Devlin et al. 2018, section 3.1, task 2, and appendix A.2.
    """
    model, exported = models.open_for_pairs(fields.model())
    texts = [fields.text("document"), fields.text("other")]
    size = min(fields.integer("max_length", 64, _SHORTEST, 1_000_000), model.max_length)
    seed, short_rate = fields.integer("seed", 0), fields.share("short_rate", 0.1)
    label = fields.choice("label", ("IsNext", "NotNext"))
    drawn = draw(model.tokenizer, texts, seed, max_pair_tokens(size), short_rate, _RANDOM_NEXT_RATES[label])
    ranges = [tf.constant([column]) for column in drawn.table[:4]]
    batch = pack_ranges(drawn.pool.token_ids, *ranges, sequence_length=size, **_special(model.tokenizer))
    pair = _pair(model.tokenizer, drawn, batch)
    if exported is not None:
        verdict = _ask(exported, drawn)
    elif model.has_output("nsp_logits"):
        # Without masks: the model reads the pair as it is.
        outputs = model.outputs(batch, mask_positions=tf.zeros([1, 1], tf.int32))
        verdict = {"is_next": rounded(NextSentenceAnswers().call(outputs)["is_next"][0])}
    else:
        verdict = None
    steps = describe_steps(drawn, pair, size, short_rate, label)
    return {"sentences": drawn.sentences, "pair": pair, "steps": steps, "verdict": verdict}


def draw(tokenizer, texts, seed: int, max_tokens: int, short_rate: float, random_next_rate: float) -> Drawn:
    """The first pair of the first of two texts."""
    sentences = []
    for name, text in zip(("document", "other"), texts, strict=True):
        split = prose_sentences(text)
        # Sentences without tokens are skipped in pools: the numbers here are those of the pool.
        lengths = tokenizer(tf.constant(split, tf.string)).row_lengths().numpy() if split else []
        sentences.append([sentence for sentence, length in zip(split, lengths, strict=True) if length])
        if not sentences[-1]:
            raise BadRequest(f"`{name}`: expected a text of at least one sentence. Received: {text[:40]!r}")
    pool = make_pool(
        tokenizer(tf.constant([sentence for document in sentences for sentence in document])),
        tf.constant([len(document) for document in sentences]),
        tf.constant([0, 1], tf.int64),
    )
    options = {
        "max_tokens": max_tokens,
        "short_sequence_rate": short_rate,
        "random_next_rate": random_next_rate,
    }
    table = PairTable(*(column[0].numpy().item() for column in sentence_pairs(pool, seed, 0, **options)))
    ranges = PairSentences(*(column[0].numpy().item() for column in pair_sentences(pool, seed, 0, **options)))
    return Drawn(sentences, pool, table, ranges)


def _pair(tokenizer, drawn, batch):
    vocabulary = tokenizer.vocabulary
    table, ranges = drawn.table, drawn.ranges
    rows = zip(*(batch[name][0].numpy().tolist() for name in ("token_ids", "segment_ids", "padding_mask")), strict=True)
    tokens = [
        token_object(position, vocabulary[token_id], token_id, segment)
        for position, (token_id, segment, is_token) in enumerate(rows)
        if is_token
    ]
    document = int(ranges.b_first >= len(drawn.sentences[0]))
    offset = document * len(drawn.sentences[0])
    return {
        "tokens": tokens,
        "label": "NotNext" if table.is_random else "IsNext",
        "first": list(range(ranges.a_first, ranges.a_end)),
        "second": {"document": document, "sentences": list(range(ranges.b_first - offset, ranges.b_end - offset))},
        "dropped": _dropped(vocabulary, drawn),
    }


def _dropped(vocabulary, drawn):
    """The tokens that the pair lost at the front and at the back of its segments."""
    ids = drawn.pool.token_ids.numpy().tolist()
    before = [0, *drawn.pool.sentence_lengths.numpy().cumsum().tolist()]  # tokens before each sentence
    table, ranges = drawn.table, drawn.ranges
    dropped = {"front": [], "back": []}
    segments = (
        (ranges.a_first, ranges.a_end, table.a_start, table.a_length),
        (ranges.b_first, ranges.b_end, table.b_start, table.b_length),
    )
    for segment, (first, end, start, length) in enumerate(segments):
        for name, lost in (("front", range(before[first], start)), ("back", range(start + length, before[end]))):
            dropped[name] += [{"token": vocabulary[ids[n]], "id": ids[n], "segment": segment} for n in lost]
    return dropped


def _ask(exported, drawn):
    """What a SavedModel says of the pair's sentences, which it tokenises and truncates itself."""
    joined = [sentence for document in drawn.sentences for sentence in document]
    first = joined[drawn.ranges.a_first : drawn.ranges.a_end]
    second = joined[drawn.ranges.b_first : drawn.ranges.b_end]
    columns = {"text": " ".join(first), "text_pair": " ".join(second)}
    return {"is_next": rounded(exported.answer(columns, "next_sentence")["is_next"][0])}


def _special(tokenizer):
    return {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
