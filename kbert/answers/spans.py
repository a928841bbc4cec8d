"""Start and end logits → answers that are spans of the contexts.

Shapes: B questions, W windows of all of them, S sequence, n best starts and ends of a window, m candidates of all
questions, k entries of an n-best list.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from kbert.answers.answers import Answers
from kbert.checks import check_option
from kbert.keras_compat import Tensor
from kbert.options import Count
from kbert.text.normalizer import valid_utf8

NO_CANDIDATE = -1e9  # score of a context without any allowed span


@keras.saving.register_keras_serializable("kbert")
class SpanAnswers(Answers):
    """The best span of each question's context, the n-best list, and whether there is an answer at all.

    The rules are the original's. In each window the `n_best` highest start and end logits are combined. A candidate
    lies in the context, does not end before it starts, has at most `max_answer_length` tokens, and its first token has
    its maximal context in this window. A candidate's score is the sum of its two logits, S·T_i + E·T_j. Of candidates
    with one text only the best is kept.

    The score of "no answer" is the sum at [CLS], the *lowest* one over the windows. With a `null_threshold`, "no
    answer" is returned if its score exceeds the best candidate's by more than that, and it is part of the n-best list.
    (The paper's τ has the opposite sign: threshold = -τ.)

    Args:
        n_best: how many starts and ends of a window are combined, and how many entries the n-best list has.
        max_answer_length: tokens.
        null_threshold: number, or None: every question has an answer (SQuAD 1.1).
        **kwargs: name, dtype, trainable.

    Inputs:
        outputs: dict with ``start_logits``, ``end_logits`` [W, S].
        batch: what `SpanPreprocessor` returned.

    Outputs: a dict, where k is `n_best`, or one more with a threshold, for a "" that is not among the best:
        answer: string [B], the exact substring ``context[start:end]``, "" for no answer.
        start, end: int32 [B], code points, -1 for no answer.
        score: float32 [B], of the best candidate, even if the answer is "". It is -1e9 if a context has no candidate.
        null_score: float32 [B]. ``null_score - score`` is compared with the threshold.
        n_best_answers: string [B, k], best first. Unused entries are "".
        n_best_scores: float32 [B, k], the softmax of their scores. Unused entries are 0.
        n_best_count: int32 [B], the entries of each list.

    Raises:
        ValueError: limits that are not positive integers, or a threshold that is not a finite number.

    Source: Devlin et al. 2018, section 4.2 and 4.3; google-research/bert run_squad.py, ``write_predictions``. Unlike
    there, a context without a candidate is not an error, and the text is cut from the source by the tokens' offsets.

    Example::

        batch = preprocessor({"question": ["Who?"], "context": ["Ada did."]})
        SpanAnswers(n_best=3)(model(batch), batch)["answer"]  # [b"Ada"]
    """

    option_names = ("n_best", "max_answer_length", "null_threshold")

    def __init__(self, n_best: int = 20, max_answer_length: int = 30, null_threshold: float | None = None, **kwargs):
        super().__init__(**kwargs)
        if null_threshold is not None and not abs(float(null_threshold)) < float("inf"):
            raise ValueError(f"SpanAnswers: `null_threshold` must be finite. Received: {null_threshold!r}")
        self.n_best = check_option("SpanAnswers", "n_best", n_best, Count)
        self.max_answer_length = check_option("SpanAnswers", "max_answer_length", max_answer_length, Count)
        self.null_threshold = None if null_threshold is None else float(null_threshold)

    @property
    def list_length(self) -> int:
        """k, the entries of an n-best list."""
        return self.n_best + (self.null_threshold is not None)

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> dict[str, tf.Tensor]:
        start_logits, end_logits, batch, contexts = _tensors(outputs, batch)
        rows = tf.size(contexts)
        null_score = tf.math.unsorted_segment_min(start_logits[:, 0] + end_logits[:, 0], batch["window_row"], rows)
        candidates = _distinct(self._candidates(start_logits, end_logits, batch, contexts))
        score, start, end, answer = _best(candidates, rows)
        if self.null_threshold is not None:
            # From the float32 values returned, so that a threshold chosen on them means the same here.
            is_null = tf.cast(null_score, tf.float32) - tf.cast(score, tf.float32) > self.null_threshold  # [B]
            start = tf.where(is_null, -1, start)
            end = tf.where(is_null, -1, end)
            answer = tf.where(is_null, "", answer)
        n_best_answers, n_best_scores, n_best_count = self._n_best(candidates, null_score, rows)
        return {
            "answer": answer,
            "score": tf.cast(score, tf.float32),
            "start": start,
            "end": end,
            "null_score": tf.cast(null_score, tf.float32),
            "n_best_answers": n_best_answers,
            "n_best_scores": n_best_scores,
            "n_best_count": n_best_count,
        }

    def candidates(
        self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """The spans that the answer and the n-best list are chosen from, of those with one text only the best.

        Returns:
            (row, score, start, end, text), tensors [m] each, by row, then by score, best first.
        """
        return _distinct(self._candidates(*_tensors(outputs, batch)))

    def _candidates(self, start_logits, end_logits, batch, contexts):
        """All allowed spans, by row, then by score, best first: (row, score, start, end, text), each [m]."""
        number = tf.minimum(self.n_best, tf.shape(start_logits)[1])
        start_best, start_at = tf.math.top_k(start_logits, number)  # [W, n]; of equal logits the first
        end_best, end_at = tf.math.top_k(end_logits, number)
        in_context = batch["window_token"] >= 0  # [W, S]
        may_start = tf.gather(in_context & batch["is_max_context"], start_at, batch_dims=1)[:, :, tf.newaxis]
        may_end = tf.gather(in_context, end_at, batch_dims=1)[:, tf.newaxis, :]
        tokens_behind = end_at[:, tf.newaxis, :] - start_at[:, :, tf.newaxis]  # [W, n, n]
        allowed = may_start & may_end & (tokens_behind >= 0) & (tokens_behind < self.max_answer_length)
        at = tf.where(allowed)  # [m, 3], in the original's order: window, start, end
        window = at[:, 0]
        first = at[:, 1]
        last = at[:, 2]
        row = tf.gather(batch["window_row"], window)
        score = _at(start_best, window, first) + _at(end_best, window, last)
        start = _at(batch["token_starts"], window, _at(start_at, window, first))
        end = _at(batch["token_ends"], window, _at(end_at, window, last))
        texts, text_start = _window_texts(batch, contexts)
        start_in_text = start - tf.gather(text_start, window)
        text = tf.strings.substr(tf.gather(texts, window), start_in_text, end - start, unit="UTF8_CHAR")
        order = tf.argsort(score, direction="DESCENDING", stable=True)
        order = tf.gather(order, tf.argsort(tf.gather(row, order), stable=True))
        return tuple(tf.gather(column, order) for column in (row, score, start, end, text))

    def _n_best(self, candidates, null_score, rows):
        """The n-best list of each row: texts and softmax of the scores, [B, k], and their number, [B]."""
        row, score, _, _, text = candidates
        rank = number = _number_in_row(row, rows)  # [m]
        limit = tf.fill([rows], self.n_best)  # [B], candidates listed
        if self.null_threshold is not None:
            better = tf.cast(score >= tf.gather(null_score, row), tf.int32)  # ties: the null entry was added last
            null_rank = tf.math.unsorted_segment_sum(better, row, rows)  # [B]
            null_rank = tf.minimum(null_rank, self.n_best)
            limit -= tf.cast(null_rank < self.n_best, tf.int32)
            rank += 1 - better
            null_place = tf.stack([tf.range(rows), null_rank], 1)
        listed = tf.where(number < tf.gather(limit, row))[:, 0]
        place = tf.stack([tf.gather(row, listed), tf.gather(rank, listed)], 1)
        texts = tf.gather(text, listed)
        scores = tf.gather(score, listed)
        if self.null_threshold is not None:
            place = tf.concat([place, null_place], 0)
            texts = tf.concat([texts, tf.fill([rows], "")], 0)
            scores = tf.concat([scores, null_score], 0)
        shape = tf.stack([rows, self.list_length])
        answers = tf.tensor_scatter_nd_update(tf.fill(shape, ""), place, texts)
        lowest = tf.fill(shape, tf.constant(-float("inf"), tf.float64))
        scores = tf.tensor_scatter_nd_update(lowest, place, scores)
        peak = tf.reduce_max(scores, axis=1, keepdims=True)  # -inf where the list is empty
        fractions = tf.exp(scores - tf.where(tf.math.is_inf(peak), tf.zeros_like(peak), peak))
        fractions = tf.math.divide_no_nan(fractions, tf.reduce_sum(fractions, axis=1, keepdims=True))
        static = [answers.shape[0], self.list_length]
        count = tf.math.unsorted_segment_sum(tf.ones_like(place[:, 0]), place[:, 0], rows)
        return tf.ensure_shape(answers, static), tf.ensure_shape(tf.cast(fractions, tf.float32), static), count

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """``answer``, ``score``, ``start``, ``end``, ``null_score``, and ``n_best``: answers with probabilities."""
        single = ("answer", "score", "start", "end", "null_score")
        columns = (answers["n_best_answers"], answers["n_best_scores"].tolist(), answers["n_best_count"])
        for i, (texts, fractions, count) in enumerate(zip(*columns, strict=True)):
            entries = [{"answer": a, "probability": p} for a, p in zip(texts[:count], fractions[:count], strict=True)]
            yield {name: answers[name][i : i + 1].tolist()[0] for name in single} | {"n_best": entries}

    def table_row(self, row: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if name != "n_best"}


def _tensors(outputs, batch):
    """(start logits, end logits [W, S], the batch as tensors, contexts [B])."""
    # In float64, as in the original's Python: float32 would create ties.
    lowest = tf.constant(-float("inf"), tf.float64)  # padding is never among the best
    start_logits = tf.where(batch["padding_mask"], tf.cast(outputs["start_logits"], tf.float64), lowest)
    end_logits = tf.where(batch["padding_mask"], tf.cast(outputs["end_logits"], tf.float64), lowest)
    batch = {name: tf.convert_to_tensor(value) for name, value in batch.items()}
    return start_logits, end_logits, batch, valid_utf8(batch["context"])  # what the offsets count in


def _at(values, row, column):
    return tf.gather_nd(values, tf.stack([row, tf.cast(column, row.dtype)], 1))


def _window_texts(batch, contexts):
    """(the part of the context in each window, strings [W]; its start in the context in code points, int32 [W]).

    Candidates are cut from these parts, because each of them holds a copy of the string that it is cut from: copies of
    long contexts would take too much memory.
    """
    in_context = batch["window_token"] >= 0  # [W, S]
    end = tf.reduce_max(tf.where(in_context, batch["token_ends"], 0), axis=1)  # [W]
    start = tf.reduce_min(tf.where(in_context, batch["token_starts"], end[:, tf.newaxis]), axis=1)
    characters = tf.strings.unicode_decode(contexts, "UTF-8")  # [B, None]
    first = tf.gather(characters.row_starts(), batch["window_row"])  # [W]
    places = tf.ragged.range(first + tf.cast(start, tf.int64), first + tf.cast(end, tf.int64))  # [W, None]
    texts = tf.strings.unicode_encode(places.with_values(tf.gather(characters.values, places.values)), "UTF-8")
    return texts, start


def _distinct(candidates):
    """The first of a row's candidates with one text."""
    row, *_, text = candidates
    _, same_text = tf.unique(text)
    different, same = tf.unique(tf.cast(row, tf.int64) * tf.size(text, tf.int64) + tf.cast(same_text, tf.int64))
    number = tf.range(tf.size(row))
    first = tf.math.unsorted_segment_min(number, same, tf.size(different))
    kept = tf.where(tf.gather(first, same) == number)[:, 0]
    return tuple(tf.gather(column, kept) for column in candidates)


def _best(candidates, rows):
    """The first candidate of each row: (score, start, end, text) [B]."""
    row, score, start, end, text = candidates
    firsts = tf.where(_number_in_row(row, rows) == 0)[:, 0]
    place = tf.gather(row, firsts)[:, tf.newaxis]

    def column(values, fill):
        empty = tf.fill([rows], tf.constant(fill, values.dtype))
        return tf.tensor_scatter_nd_update(empty, place, tf.gather(values, firsts))

    return column(score, NO_CANDIDATE), column(start, -1), column(end, -1), column(text, "")


def _number_in_row(row, rows):
    """0, 1, ... within each row, for ascending row numbers [m]."""
    counts = tf.math.unsorted_segment_sum(tf.ones_like(row), row, rows)
    return tf.range(tf.size(row)) - tf.gather(tf.cumsum(counts, exclusive=True), row)
