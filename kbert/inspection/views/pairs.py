"""How a pair of sentences and its label come about, with the functions that make the training data.

Shapes: S sequence.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import keras
import numpy as np
import tensorflow as tf

from kbert.answers.pretraining import NextSentenceAnswers
from kbert.corpus.documents import prose_sentences
from kbert.corpus.pool import TokenPool, make_pool
from kbert.inspection.analysis.states import check_reads_pairs
from kbert.pretraining.pairs import PairSentences, PairTable, max_pair_tokens, pair_sentences, sentence_pairs
from kbert.text.packing import pack_ranges

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel
    from kbert.text.tokenizer import BertTokenizer

_SHORTEST = 5  # tokens: [CLS], two [SEP] and a token of each segment
_RANDOM_NEXT_RATES = {None: 0.5, "IsNext": 0.0, "NotNext": 1.0}  # requested label → how often B is random


@dataclasses.dataclass(frozen=True)
class DrawnPair:
    """The first pair of a document.

    Attributes:
        sentences: the sentences of both documents, without those that have no tokens.
        tokens, segments: the row, with [CLS] and [SEP].
        label: "IsNext" or "NotNext".
        first: numbers of segment A's sentences in the first document.
        document, second: segment B's document, 0 or 1, and the numbers of its sentences there.
        steps: what was done, a sentence for each step.
        is_next: the model's probability of IsNext. None without a next-sentence head.
    """

    sentences: list[list[str]]
    tokens: list[str]
    segments: list[int]
    label: str
    first: range
    document: int
    second: range
    steps: list[str]
    is_next: float | None = None


def draw_pair(
    tokenizer: "BertTokenizer",
    documents: Sequence[str],
    model: "BertModel | None" = None,
    *,
    label: Literal["IsNext", "NotNext"] | None = None,
    sequence_length: int = 64,
    short_rate: float = 0.1,
    seed: int = 0,
) -> DrawnPair:
    """Makes the first pair of the first of two documents, and asks a model with a next-sentence head about it.

    Args:
        label: label to draw. Segment A stays the same. Defaults to the paper's rule, a coin.
        sequence_length: tokens of the row, at least 5.
        short_rate: how often a document's pairs are made shorter.

    Raises:
        ValueError: a document without a sentence, a row that is too short, an unknown label, or a next-sentence head of
            a model of one segment.

    Source: Devlin et al. 2018, section 3.1, task 2, and appendix A.2.
    """
    if sequence_length < _SHORTEST:
        raise ValueError(f"draw_pair: `sequence_length` must be at least {_SHORTEST}. Received: {sequence_length}")
    if label not in _RANDOM_NEXT_RATES:
        raise ValueError(f'draw_pair: `label` must be "IsNext", "NotNext" or None. Received: {label!r}')
    sentences = [_sentences(tokenizer, text, number) for number, text in enumerate(documents, start=1)]
    pool = make_pool(
        tokenizer(tf.constant([sentence for document in sentences for sentence in document])),
        tf.constant([len(document) for document in sentences]),
        tf.constant([0, 1], tf.int64),
    )
    options = {
        "max_tokens": max_pair_tokens(sequence_length),
        "short_sequence_rate": short_rate,
        "random_next_rate": _RANDOM_NEXT_RATES[label],
    }
    table = PairTable(*(column[0].numpy().item() for column in sentence_pairs(pool, seed, 0, **options)))
    ranges = PairSentences(*(column[0].numpy().item() for column in pair_sentences(pool, seed, 0, **options)))
    batch = pack_ranges(
        pool.token_ids,
        *(tf.constant([column]) for column in table[:4]),
        sequence_length=sequence_length,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
    )
    size = int(np.asarray(batch["padding_mask"]).sum())
    row = {name: value[:, :size] for name, value in batch.items()}
    document = int(ranges.b_first >= len(sentences[0]))
    offset = document * len(sentences[0])
    pair = DrawnPair(
        sentences=sentences,
        tokens=[tokenizer.vocabulary[n] for n in row["token_ids"][0].numpy()],
        segments=row["segment_ids"][0].numpy().tolist(),
        label="NotNext" if table.is_random else "IsNext",
        first=range(ranges.a_first, ranges.a_end),
        document=document,
        second=range(ranges.b_first - offset, ranges.b_end - offset),
        steps=[],
        is_next=_verdict(model, row),
    )
    rule = [
        f"A row has {sequence_length} tokens: {sequence_length - 3} for the pair, besides [CLS] and two [SEP].",
        "The length of the pairs is drawn once per document, so that the model also sees short rows: it is "
        f"{sequence_length - 3} with probability {1 - short_rate:g}, and with probability {short_rate:g} a number from "
        f"2 to {sequence_length - 3}. Here it is {ranges.target} tokens.",
    ]
    pair.steps.extend([*rule, *_choice(pair, pool, ranges.target, "The coin says" if label is None else "You chose")])
    pair.steps.append(_truncation(pool, table, ranges))
    return pair


def _sentences(tokenizer, text, number):
    """Those with tokens: a pool skips the others, and the numbers are those of the pool."""
    split = prose_sentences(text)
    lengths = tokenizer(tf.constant(split, tf.string)).row_lengths().numpy() if split else []
    kept = [sentence for sentence, length in zip(split, lengths, strict=True) if length]
    if not kept:
        raise ValueError(f"Document {number} must have at least one sentence. Received: {text[:40]!r}")
    return kept


def _verdict(model, row):
    if model is None or "nsp_logits" not in model.output:
        return None
    check_reads_pairs(model.config)
    inputs = row | {"mask_positions": tf.zeros([1, 1], tf.int32)}  # without masks: the model reads the pair as it is
    outputs = model({name: inputs[name] for name in model.input}, training=False)
    outputs = {"nsp_logits": keras.ops.convert_to_numpy(outputs["nsp_logits"]).astype("float32")}
    return float(NextSentenceAnswers().call(outputs)["is_next"][0])


def _choice(pair: DrawnPair, pool: TokenPool, target: int, who: str) -> list[str]:
    """How the sentences of A and B were chosen."""
    count = len(pair.sentences[0])
    ends = np.cumsum(pool.sentence_lengths.numpy()[:count])
    chunk = min(int(np.searchsorted(ends, target)) + 1, count)
    until = "the document ends" if chunk == count else "there are enough tokens"
    steps = [f"Sentences are taken from document 1 until {until}: {_numbers(range(chunk))}."]
    if chunk == 1:
        steps.append("A gets this sentence.")
    else:
        steps.append(f"A gets {_numbers(pair.first)}. The number of sentences in A is random.")
    random = f"B starts at a random sentence of document {pair.document + 1} and gets {_numbers(pair.second)}"
    if pair.label == "IsNext":
        steps.append(f"{who} IsNext: B gets the rest, {_numbers(pair.second)}.")
    elif chunk == 1:
        steps.append(f"Nothing is left for B in document 1, so the pair is NotNext: {random}.")
    else:
        steps.append(
            f"{who} NotNext: {random}, up to the length of the pair. "
            "The sentences taken but not used start the next pair."
        )
    return steps


def _truncation(pool: TokenPool, table: PairTable, ranges: PairSentences) -> str:
    before = np.cumsum([0, *pool.sentence_lengths.numpy()]).tolist()  # tokens before each sentence
    front = table.a_start - before[ranges.a_first] + table.b_start - before[ranges.b_first]
    back = before[ranges.a_end] - table.a_start - table.a_length + before[ranges.b_end] - table.b_start - table.b_length
    if not front + back:
        return "Both fit: nothing is truncated."
    return (
        f"Together they have {front + back:,} token{'s' * (front + back > 1)} too many. The longer of the two loses "
        f"one at a time, at the front or the back by the toss of a coin: {front:,} at the front, {back:,} at the back."
    )


def _numbers(sentences):
    """Sentences in words, counted from 1."""
    if len(sentences) == 1:
        return f"sentence {sentences[0] + 1}"
    return f"sentences {sentences[0] + 1} to {sentences[-1] + 1}"
