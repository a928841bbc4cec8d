"""Answers in long texts, out of the SavedModel: at the very end, with places that cut them out, and none at all."""

import pytest
import tensorflow as tf

# The places of words in every kind of text: tests/text/test_tokenizer_offsets.py.
CLAUSE = "the film \U0001f600\U0001f1ec\U0001f1e7 was very good . "


@pytest.fixture(scope="module")
def serve(served_models):
    return {kind: served_models[kind].loaded for kind in ("span", "tagging")}


def test_an_answer_at_the_end_of_3000_words(serve):
    long = CLAUSE * (3000 // len(CLAUSE.split()))
    contexts = [long + "it was in London", long, "London " + long]
    answers = serve["span"]["answer"](question=tf.constant(["the capital?"] * 3), context=tf.constant(contexts))
    assert [answer.decode() for answer in answers["answer"].numpy()] == ["London", "", "London"]
    start, end = answers["start"].numpy(), answers["end"].numpy()
    assert contexts[0][start[0] : end[0]] == "London" and start[0] == len(contexts[0]) - 6
    assert (start[1], end[1]) == (-1, -1)  # the stored threshold says that there is no answer
    assert contexts[2][start[2] : end[2]] == "London" and start[2] == 0
    null_score, score = answers["null_score"].numpy(), answers["score"].numpy()
    assert null_score[1] > score[1] and null_score[0] < score[0]
    assert answers["n_best_answers"].numpy()[0, 0] == b"London"


def test_entities_of_2000_words(serve):
    long = CLAUSE * (1000 // len(CLAUSE.split()))
    text = long + "Paris London " + long + "Paris"
    found = serve["tagging"]["entities"](text=tf.constant([text, long]))
    assert found["count"].numpy().tolist() == [2, 0]
    starts, ends = found["starts"].numpy()[0], found["ends"].numpy()[0]
    assert [text[a:b] for a, b in zip(starts, ends, strict=True)] == ["Paris London", "Paris"]
    assert [entity.decode() for entity in found["entities"].numpy()[0]] == ["Paris London", "Paris"]
    assert found["types"].numpy()[0].tolist() == [b"LOC", b"LOC"]
    tags = serve["tagging"]["tag"](text=tf.constant([text]))
    named = [tag for tag in tags["tags"].numpy()[0].tolist() if tag != b"O"]
    assert named == [b"B-LOC", b"I-LOC", b"B-LOC"] and tags["words"].numpy()[0, -1] == b"Paris"
