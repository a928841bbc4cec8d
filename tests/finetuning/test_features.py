"""Features of a frozen encoder, and the files that they are written to."""

import itertools
import types

import numpy as np
import pytest
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

from kbert import BertEncoder
from kbert.finetuning.features import layer_numbers, text_features, write_features
from kbert.preprocessing.window_preprocessors import TaggingPreprocessor
from kbert.training import callbacks

TEXTS = ["The films is good.", "", "never in the capitals of France, London was " * 3]


@pytest.fixture(scope="module")
def encoder():
    return randomise(BertEncoder(tiny_config(), outputs=("hidden_states",)), scale=0.3)


@pytest.fixture(scope="module")
def preprocessor():
    return TaggingPreprocessor(tiny_tokenizer(), 13, 4)


def all_states(encoder, batch):
    states = encoder.predict_on_batch({name: batch[name] for name in encoder.input})["hidden_states"]
    return np.stack([np.asarray(state) for state in states], axis=2)  # [W, S, L + 1, H]


def test_features_of_texts(encoder, preprocessor):
    batch = {name: value.numpy() for name, value in preprocessor(TEXTS).items()}
    states = all_states(encoder, batch)
    tokens = list(text_features(encoder, preprocessor, TEXTS, (2, 0), batch_size=2))
    words = list(text_features(encoder, preprocessor, TEXTS, (1,), align="words", batch_size=2))
    assert tokens[0][0] == ["[CLS]", "the", "film", "##s", "is", "good", ".", "[SEP]"]
    np.testing.assert_allclose(tokens[0][1], states[0, :8][:, [2, 0]], atol=1e-5)
    assert tokens[1][0] == ["[CLS]", "[SEP]"] and words[1][0] == []
    assert words[0][0] == ["The", "films", "is", "good", "."]
    np.testing.assert_allclose(words[0][1][:, 0], states[0, [1, 2, 4, 5, 6], 1], atol=1e-5)
    names, features = tokens[2]
    assert names[1:-1] == [tiny_tokenizer().id_to_token(int(n)) for n in tiny_tokenizer()([TEXTS[2]])[0]]
    windows = np.flatnonzero(batch["window_row"] == 2)
    assert len(windows) > 3
    for window in windows:  # each token as its best window has it
        for place in np.flatnonzero(batch["is_max_context"][window]):
            token = 1 + batch["window_token"][window, place] - 6  # 6 tokens before this text's
            np.testing.assert_allclose(features[token], states[window, place][[2, 0]], atol=1e-5)


def test_long_passes_say_how_far_they_are(encoder, preprocessor, monkeypatch, caplog):
    """With a clock by which every batch takes twenty seconds."""
    monkeypatch.setattr(callbacks, "time", types.SimpleNamespace(perf_counter=itertools.count(0, 20).__next__))
    caplog.set_level("INFO", "kbert")
    list(text_features(encoder, preprocessor, ["the film"] * 3, (0,), batch_size=1))
    assert not caplog.records  # how many there are is not known
    list(text_features(encoder, preprocessor, ["the film"] * 3, (0,), batch_size=1, total=3))
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["1 of 3 texts read, 0:00:40 left", "2 of 3 texts read, 0:00:20 left"]


def test_layers_count_from_both_ends():
    assert layer_numbers([-1, 0, 2, -3], 2) == (2, 0, 2, 0)
    for layers in ([3], [-4], []):
        with pytest.raises(ValueError, match="Expected layers from -3 to 2"):
            layer_numbers(layers, 2)


def test_one_process_at_a_time_writes_a_file(tmp_path):
    def texts():
        with pytest.raises(BlockingIOError, match="features.jsonl is in use by process"):
            write_features(tmp_path / "new" / "features.jsonl", [(["good"], np.ones((1, 1, 2)))], [-1])
        yield ["good"], np.zeros((1, 1, 2), "float32")

    assert write_features(tmp_path / "new" / "features.jsonl", texts(), [-1]) == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["features.jsonl"]
