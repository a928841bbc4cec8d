"""What a tagger learns from: labels at first tokens, in every window that holds them; and how it is scored."""

import numpy as np
import pytest
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

from kbert import BertTagger
from kbert.preprocessing.window_preprocessors import TaggingPreprocessor
from kbert.tasks.tagging.evaluation import TaggedWindows, evaluate_tagger
from kbert.tasks.tagging.readers import TaggedText
from kbert.tasks.tagging.tag_scheme import entity_scores

TAGS = ["O", "B-X", "I-X"]
WORDS = [
    ["films", "is", "never"],
    ["Paris"],
    ["good", "capitals", "of", "France", "!"] * 4,
    ["the", "unknown", "films"],
]
LABELS = [["B-X", "O", "O"], ["B-Y"], ["O", "B-X", "I-X", "I-X", "O"] * 4, ["O", "O", "B-X"]]
TAGGED = TaggedText(WORDS, LABELS, [1, 1, 2, 2])


@pytest.fixture(scope="module")
def preprocessor():
    return TaggingPreprocessor(tiny_tokenizer(), 11, 5)


@pytest.mark.parametrize("context", ["document", "sentence"])
def test_first_tokens_are_labelled_and_nothing_else(preprocessor, context):
    windows = TaggedWindows.from_tagged_text(TAGGED, preprocessor, TAGS, context)
    tokenizer = tiny_tokenizer()
    ids, weights = windows.batch["token_ids"], windows.weights
    assert len(windows.texts) == (2 if context == "document" else 4)
    texts = [[row for row in text] for text in windows.texts]
    for number, text in enumerate(texts):
        expected = []  # of each token of the text: (id, label or None)
        for row in text:
            for word, tag in zip(WORDS[row], LABELS[row], strict=True):
                pieces = tokenizer([word]).to_list()[0]
                label = TAGS.index(tag) if tag in TAGS else None
                expected += [(pieces[0], label)] + [(piece, None) for piece in pieces[1:]]
        mine = np.flatnonzero(windows.batch["window_row"] == number)
        for place, window in enumerate(mine):
            content = windows.batch["padding_mask"][window].sum() - 2
            for n in range(content):
                id_, label = expected[place * 5 + n]
                assert ids[window, n + 1] == id_
                assert weights[window, n + 1] == (label is not None)
                assert windows.labels[window, n + 1] == (label or 0)
            assert weights[window, 0] == 0 and not weights[window, content + 1 :].any()
    assert windows.real_tokens == windows.batch["padding_mask"].sum() / len(windows)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("context", ["document", "sentence"])
def test_the_score_is_that_of_every_word_in_its_best_window(preprocessor, context):
    model = randomise(BertTagger(tiny_config(), num_labels=3), seed=2)
    windows = TaggedWindows.from_tagged_text(TAGGED, preprocessor, TAGS, context)
    inputs = {name: windows.batch[name] for name in model.input}
    position = windows.batch["word_position"]
    position = position[position >= 0]

    def word_logits():
        return np.asarray(model.predict_on_batch(inputs)["logits"]).reshape(-1, 3)[position]

    model.weights[-1].assign(-word_logits().mean(axis=0))  # the head's bias: no tag is the answer to every word
    ids = word_logits()
    expected, losses, done = [], [], 0
    for tags in LABELS:
        rows = ids[done : done + len(tags)]
        done += len(tags)
        expected.append([TAGS[n] for n in rows.argmax(-1)])
        log = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
        losses += [-log[n, TAGS.index(tag)] for n, tag in enumerate(tags) if tag in TAGS]
    for batch_size in (2, 32):
        scores, predicted = evaluate_tagger(model, preprocessor, TAGGED, TAGS, context=context, batch_size=batch_size)
        assert predicted == expected
        assert scores.pop("loss") == pytest.approx(np.mean(losses), rel=1e-4)
        assert scores.pop("sentences") == 4
        assert scores == entity_scores(LABELS, expected)
    assert len({tag for tags in expected for tag in tags}) > 1


@pytest.mark.usefixtures("eagerly")
def test_tags_of_other_schemes_can_be_scored(preprocessor):
    model = randomise(BertTagger(tiny_config(), num_labels=3), seed=2)
    _, predicted = evaluate_tagger(model, preprocessor, TAGGED, ["E-X", "S-X", "L-X"])
    assert {tag for tags in predicted for tag in tags} <= {"I-X", "B-X"}
    scores, predicted = evaluate_tagger(model, preprocessor, TAGGED, ["O", "X-Y", "PRO"])  # types alone
    assert {tag for tags in predicted for tag in tags} <= {"O", "I-X-Y", "I-PRO"} and "PRO" in scores["types"]
