"""Windows with their answers' places: true character offsets, windows without the answer, order and resumption."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.preprocessing.buckets import trim_padding
from kbert.preprocessing.window_preprocessors import SpanPreprocessor
from kbert.tasks.span.evaluation import span_positions, span_windows
from kbert.tasks.span.questions import Questions

PIECES = ["Paris", "is", "the", "capital", "\U0001f600", "中", "films", "É", "was", "1,5", "good!", "\n"]
RNG = np.random.default_rng(7)


def make_questions(count=40):
    """Answers anywhere in contexts of 1 to 90 words, some in the middle of a word, a fifth of them none."""
    contexts = [" ".join(RNG.choice(PIECES, RNG.integers(1, 90))) for _ in range(count)]
    starts = np.array([-1 if n % 5 == 0 else RNG.integers(0, len(c)) for n, c in enumerate(contexts)], "int32")
    ends = [min(len(c), s + RNG.integers(1, 25)) for c, s in zip(contexts, starts, strict=True)]
    answers = [() if s < 0 else (c[s:e],) for c, s, e in zip(contexts, starts, ends, strict=True)]
    asked = ["" if n % 7 == 0 else "is the capital good?" for n in range(count)]
    return Questions([str(n) for n in range(count)], asked, contexts, answers, starts)


QUESTIONS = make_questions()
PREPROCESSOR = SpanPreprocessor(tiny_tokenizer(), 18, 5, 4)


def test_the_answers_places():
    asked = QUESTIONS
    batch = PREPROCESSOR(asked.columns)
    starts, ends = (x.numpy() for x in span_positions(batch, asked.answer_starts, asked.answer_ends))
    batch = {name: value.numpy() for name, value in batch.items()}
    _, token_starts, token_ends = (x.to_list() for x in tiny_tokenizer().tokenize_with_offsets(asked.contexts))
    found = set()
    for w, row in enumerate(batch["window_row"]):
        begin, end = asked.answer_starts[row], asked.answer_ends[row]
        spans = list(zip(token_starts[row], token_ends[row], strict=True))
        of_answer = [span for span in spans if begin >= 0 and span[1] > begin and span[0] < end]
        here = np.flatnonzero(batch["window_token"][w] >= 0)
        in_window = [(batch["token_starts"][w, i], batch["token_ends"][w, i]) for i in here]
        columns = [i for i, span in zip(here, in_window, strict=True) if span in of_answer]
        if not of_answer or len(columns) < len(of_answer):
            assert (starts[w], ends[w]) == (0, 0)
        else:
            found.add(row)
            assert (starts[w], ends[w]) == (columns[0], columns[-1])
            text = asked.contexts[row][batch["token_starts"][w, starts[w]] : batch["token_ends"][w, ends[w]]]
            assert asked.answers[row][0].strip().strip("\ufe0f") in text or not asked.answers[row][0].strip()
    assert len(found) > 20 and (starts == 0).any()


def test_the_store_gives_back_the_preprocessors_batches():
    store, labels = span_windows(QUESTIONS, PREPROCESSOR)
    batch = PREPROCESSOR(QUESTIONS.columns)
    received = store.batch(tf.range(len(store)))
    for name, value in received.items():
        np.testing.assert_array_equal(value, batch[name])
        assert value.dtype == batch[name].dtype
    np.testing.assert_array_equal(store.rows, batch["window_row"])
    starts, ends = span_positions(batch, QUESTIONS.answer_starts, QUESTIONS.answer_ends)
    np.testing.assert_array_equal(labels["start_logits"], np.stack([starts, store.lengths], 1))
    np.testing.assert_array_equal(labels["end_logits"], np.stack([ends, store.lengths], 1))


def test_chunks_do_not_show(monkeypatch):
    from kbert.tasks import training_data

    whole, labels = span_windows(QUESTIONS, PREPROCESSOR)
    monkeypatch.setattr(training_data, "_EXAMPLES", 7)
    parts, same_labels = span_windows(QUESTIONS, PREPROCESSOR)
    for name in ("token_ids", "starts", "lengths", "first_lengths", "rows"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    np.testing.assert_array_equal(labels["end_logits"], same_labels["end_logits"])


@pytest.mark.usefixtures("eagerly")
def test_a_batch_cut_to_its_longest_has_the_loss_of_the_padded():
    preprocessor = SpanPreprocessor(tiny_tokenizer(), 40, 8, 4)
    store, labels = span_windows(QUESTIONS, preprocessor)
    model = randomise(kbert.BertSpanExtractor(tiny_config(max_sequence_length=40)), scale=0.2)
    model.compile(weighted_metrics=None)
    short = np.flatnonzero(store.lengths <= 32)
    targets = {name: values[short] for name, values in labels.items()}
    padded = store.batch(short)
    cut = trim_padding(padded)
    assert len(short) > 3 and cut["token_ids"].shape[1] == 32 < padded["token_ids"].shape[1]
    one, two = (model.evaluate(x, targets, verbose=0) for x in (padded, cut))
    assert one == pytest.approx(two, rel=1e-5)


def test_lost_questions_are_no_lesson():
    lost = Questions(["x", "y"], ["?", "?"], ["a", "b"], [("c",), ("b",)], np.array([-1, 0], "int32"))
    with pytest.raises(ValueError, match=r"Received: 1 that do not, such as \['x'\]"):
        span_windows(lost, PREPROCESSOR)
