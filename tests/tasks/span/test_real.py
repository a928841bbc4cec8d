"""The real files of SQuAD: every answer comes back, as the exact substring, through windows, tokens and offsets."""

import numpy as np
import pytest
import tensorflow as tf

import kbert
from kbert.answers.spans import SpanAnswers
from kbert.preprocessing.window_preprocessors import SpanPreprocessor
from kbert.tasks.span.evaluation import span_positions
from kbert.tasks.span.metrics import normalize_answer
from kbert.tasks.span.questions import read_squad

COUNTS = {"train-v1.1": 7010, "dev-v1.1": 1572, "train-v2.0": 6007, "dev-v2.0": 2954}  # of the data's README


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_every_answer_is_found(shared_data, name):
    asked = read_squad(shared_data / "squad" / f"{name}.json")
    assert len(asked) == COUNTS[name]
    assert asked.has_answer.all() == ("v1.1" in name)
    assert asked.is_lost.mean() < 0.01
    tokenizer = kbert.BertTokenizer(shared_data / "vocab" / "bert-base-uncased" / "vocab.txt")
    preprocessor, answers = SpanPreprocessor(tokenizer), SpanAnswers(n_best=1, max_answer_length=384)
    exact = held = total = 0
    for first in range(0, len(asked), 128):
        some = asked.take(range(first, min(first + 128, len(asked))))
        found = recover(preprocessor, answers, some)
        for row in np.flatnonzero(some.answer_starts >= 0):
            start, end = found["start"][row], found["end"][row]
            text = found["answer"][row].decode()
            assert text == some.contexts[row][start:end] and text
            held += some.answers[row][0].strip() in text
            exact += normalize_answer(text) == normalize_answer(some.answers[row][0])
            total += 1
    assert held / total > 0.999
    assert exact / total > 0.99  # the others begin or end inside of a word


def recover(preprocessor, answers, some):
    """What is answered if the model's logits point at the places that it is taught."""
    batch = preprocessor({name: tf.constant(column) for name, column in some.columns.items()})
    places = span_positions(batch, some.answer_starts, some.answer_ends)
    size = preprocessor.sequence_length
    # Off [CLS], which windows without the answer are taught, and which is no candidate.
    start_logits, end_logits = (10 * tf.one_hot(p, size) * tf.cast(p > 0, tf.float32)[:, tf.newaxis] for p in places)
    outputs = {"start_logits": start_logits, "end_logits": end_logits}
    return {name: value.numpy() for name, value in answers(outputs, batch).items()}
