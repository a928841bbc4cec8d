"""The views of pre-training: which tokens are masked, how a pair and its label are made, and what a model says.

Shapes: S sequence, P predictions, V vocabulary, n sentences of two documents, p pairs.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf

from kbert.answers.pretraining import FillMaskAnswers, NextSentenceAnswers
from kbert.corpus.documents import prose_sentences
from kbert.corpus.pool import TokenPool, make_pool
from kbert.inspection.playground.questions import BadRequest, RequestFields, as_arrays, read_row, rounded, token_object
from kbert.pretraining.masking import TokenMasking
from kbert.pretraining.pairs import PairSentences, PairTable, max_pair_tokens, pair_sentences, sentence_pairs
from kbert.stateless_random import fold_in
from kbert.text.packing import pack_ranges

if TYPE_CHECKING:
    from kbert.inspection.playground.models import PlaygroundModels

_TOP = 5
_CAUSAL = (
    "A left-to-right model is not asked for these tokens: it never sees a [MASK], and was trained to predict every "
    "token from those before it."
)
_SHORTEST = 5  # tokens of a row with a pair
_RANDOM_NEXT_RATES = {None: 0.5, "IsNext": 0.0, "NotNext": 1.0}  # requested label → how often B is random


def masking(models: "PlaygroundModels", fields: RequestFields) -> dict:
    """Masks a text with `TokenMasking`, the layer of the training data, under the key ``fold_in(seed, 0)``.

    A token whose random replacement is itself counts as kept, as the model sees it.
    """
    model = models.open(fields.model())
    text = fields.text("text")
    text_pair = fields.optional_text("text_pair")
    rates = _rates(fields)
    whole_word = fields.boolean("whole_word")
    seed = fields.integer("seed", 0)
    most = fields.integer("max_predictions", None, 1, 1_000_000)
    tokens, batch, truncated = read_row(model, text, text_pair)
    most = len(tokens) if most is None else min(most, len(tokens))  # a higher limit changes nothing
    layer = TokenMasking(model.tokenizer, most, whole_word=whole_word, **rates)
    inputs, mask_ids, mask_weights = layer.call(batch, keys=fold_in(seed, tf.zeros([1], tf.int64)))
    chosen = int(tf.reduce_sum(mask_weights))
    positions = inputs["mask_positions"][0, :chosen].numpy().tolist()
    vocabulary = model.tokenizer.vocabulary
    for token, now in zip(tokens, inputs["token_ids"][0].numpy().tolist(), strict=True):
        token |= {"corrupted": vocabulary[now], "kind": "not chosen", "label": None}
        token |= {"predictions": None, "label_probability": None}
        if token["position"] not in positions:
            continue
        token |= {"kind": "random", "label": token["token"]}
        if now == token["id"]:
            token["kind"] = "kept"
        elif now == model.tokenizer.mask_id:
            token["kind"] = "[MASK]"
    kinds = [token["kind"] for token in tokens]
    counts = {
        "chosen": chosen,
        "masked": kinds.count("[MASK]"),
        "random": kinds.count("random"),
        "kept": kinds.count("kept"),
        "candidates": sum(token["id"] not in (model.tokenizer.cls_id, model.tokenizer.sep_id) for token in tokens),
    }
    predicts = model.has_output("mlm_logits")
    loss = None
    if chosen and predicts and not model.is_causal:
        inputs |= {"mask_positions": inputs["mask_positions"][:, :chosen]}
        loss = _predict(model, inputs, mask_ids[:, :chosen], [tokens[position] for position in positions])
    note = _CAUSAL if predicts and model.is_causal else None
    return {"tokens": tokens, "counts": counts, "loss": loss, "truncated": truncated, "note": note}


def _rates(fields):
    mask_rate = fields.fraction("mask_rate", 0.15)
    mask_token_rate = fields.fraction("mask_token_rate", 0.8)
    random_token_rate = fields.fraction("random_token_rate", 0.1)
    keep_rate = 1.0 - mask_token_rate - random_token_rate
    if keep_rate < -1e-6:
        raise BadRequest(
            "`mask_token_rate` and `random_token_rate`: expected fractions that add up to at most 1. "
            f"Received: {mask_token_rate:g} and {random_token_rate:g}"
        )
    return {
        "mask_rate": mask_rate,
        "mask_token_rate": mask_token_rate,
        "random_token_rate": random_token_rate,
        "keep_rate": max(keep_rate, 0.0),
    }


def _predict(model, inputs, mask_ids, chosen):
    """Adds the model's predictions to the chosen tokens, and returns the row's loss, as in training."""
    logits = model.outputs(inputs)["mlm_logits"]  # [1, P, V]
    answers = FillMaskAnswers(model.tokenizer, min(_TOP, logits.shape[-1]))
    (row,) = answers.to_dicts(as_arrays(answers.call({"mlm_logits": logits}, {"count": [len(chosen)]})))
    labels = mask_ids[0].numpy()
    fractions = tf.nn.softmax(logits[0]).numpy()[np.arange(len(labels)), labels]
    for token, proposals, fraction in zip(chosen, row["masks"], rounded(fractions), strict=True):
        token |= {"predictions": proposals, "label_probability": fraction}
    return rounded(model.masked_lm_loss(mask_ids, logits))


class Drawn(NamedTuple):
    """The first pair of the first document, as int and bool, with where it comes from."""

    sentences: list[list[str]]  # of both documents, those that have tokens
    pool: TokenPool
    table: PairTable
    ranges: PairSentences


def next_sentence(models: "PlaygroundModels", fields: RequestFields) -> dict:
    """Makes the first pair of a document with the functions of the training data.

    ``label`` replaces the coin that decides whether B is random: A stays as it is.

    Source: Devlin et al. 2018, section 3.1, task 2, and appendix A.2.
    """
    model, exported = models.open_for_pairs(fields.model())
    texts = [fields.text("document"), fields.text("other")]
    size = min(fields.integer("max_length", 64, _SHORTEST, 1_000_000), model.max_length)
    seed = fields.integer("seed", 0)
    short_rate = fields.fraction("short_rate", 0.1)
    label = fields.choice("label", ("IsNext", "NotNext"))
    drawn = _draw(model.tokenizer, texts, seed, max_pair_tokens(size), short_rate, _RANDOM_NEXT_RATES[label])
    batch = pack_ranges(
        drawn.pool.token_ids,
        *(tf.constant([column]) for column in drawn.table[:4]),
        sequence_length=size,
        cls_id=model.tokenizer.cls_id,
        sep_id=model.tokenizer.sep_id,
        pad_id=model.tokenizer.pad_id,
    )
    pair = _pair(model.tokenizer, drawn, batch)
    if exported is not None:
        verdict = _ask(exported, drawn)
    elif model.has_output("nsp_logits"):
        # Without masks: the model reads the pair as it is.
        outputs = model.outputs(batch, mask_positions=tf.zeros([1, 1], tf.int32))
        verdict = {"is_next": rounded(NextSentenceAnswers().call(outputs)["is_next"][0])}
    else:
        verdict = None
    steps = _steps(drawn, pair, size, short_rate, label)
    return {"sentences": drawn.sentences, "pair": pair, "steps": steps, "verdict": verdict}


def _draw(tokenizer, texts, seed: int, max_tokens: int, short_rate: float, random_next_rate: float) -> Drawn:
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
    options = {"max_tokens": max_tokens, "short_sequence_rate": short_rate, "random_next_rate": random_next_rate}
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


def _steps(drawn, pair, size: int, short_rate: float, label: str | None) -> list[str]:
    """The steps of `kbert.pretraining.sentence_pairs` for one pair, as they happened; `label` is the requested one."""
    most = size - 3
    target = drawn.ranges.target
    steps = [
        f"A row has {size} tokens: {most} for the pair, besides [CLS] and two [SEP].",
        "The length of the pairs is drawn once for a document, so that the model also sees short rows: with "
        f"probability {1 - short_rate:g} it is {most}, and with probability {short_rate:g} a number from 2 to {most}. "
        f"Here it is {target} tokens.",
    ]
    who = "The coin says" if label is None else "You chose"
    first, second = pair["first"], pair["second"]
    chunk = _chunk(drawn, target)
    more = "the document ends" if chunk == len(drawn.sentences[0]) else "there are enough tokens"
    steps.append(f"Sentences are taken from the document until {more}: {_numbers(range(chunk))}.")
    if chunk == 1:
        steps.append("A gets this sentence.")
    else:
        steps.append(f"A gets {_numbers(first)} of these: after how many sentences it ends is drawn.")
    where = "the document itself" if second["document"] == 0 else "the other document"
    if not drawn.table.is_random:
        steps.append(f"{who} IsNext: B gets the rest, {_numbers(second['sentences'])}.")
    elif chunk == 1:
        steps.append(
            "There is no rest that could be B, so the pair is NotNext: B begins at a random place of "
            f"{where} and takes {_numbers(second['sentences'])}."
        )
    else:
        steps.append(
            f"{who} NotNext: B begins at a random place of {where} and takes {_numbers(second['sentences'])}, "
            "up to the length that is wanted. The rest of the sentences begins the next pair."
        )
    front, back = (len(pair["dropped"][side]) for side in ("front", "back"))
    if front + back:
        tokens = "1 token" if front + back == 1 else f"{front + back} tokens"
        steps.append(
            f"Together they have {tokens} too many. Again and again the longer of the two loses one, "
            f"at the front or at the back by the toss of a coin: {front} at the front, {back} at the back."
        )
    else:
        steps.append("Both fit: nothing is truncated.")
    return steps


def _chunk(drawn, target):
    """How many sentences of the document were gathered."""
    count = len(drawn.sentences[0])
    ends = np.cumsum(drawn.pool.sentence_lengths.numpy()[:count])
    return min(int(np.searchsorted(ends, target)) + 1, count)


def _numbers(sentences):
    if len(sentences) == 1:
        return f"sentence {sentences[0]}"
    return f"sentences {sentences[0]} to {sentences[-1]}"
