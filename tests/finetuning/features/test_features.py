"""Features of a frozen encoder, cached and not, and the taggers that learn from them."""

import errno
import itertools
import json
import os
import types

import keras
import numpy as np
import pytest
from helpers.event_files import read_scalars, tags_of
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer
from helpers.tiny_directory import write_tiny_directory
from helpers.toy_tags import tagged_sentences

import kbert
from kbert import BertEncoder
from kbert.files import FullDisk
from kbert.finetuning.features.extract import check_layers, text_features, write_features, write_word_features
from kbert.finetuning.features.modes import FEATURE_MODES, feature_layers
from kbert.finetuning.features.tagger import feature_tagger
from kbert.finetuning.features.train import (
    FeatureSentences,
    FeatureTraining,
    evaluate_features,
    feature_dataset,
    train_feature_taggers,
)
from kbert.layers.scalar_mix import ScalarMix
from kbert.optim.losses import ClassificationLoss
from kbert.preprocessing.window_preprocessors import TaggingPreprocessor
from kbert.tasks.tagging.readers import TaggedText
from kbert.tasks.tagging.tag_scheme import entity_scores
from kbert.training import callbacks

TEXTS = ["The films is good.", "", "never in the capitals of France, London was " * 3]
WORDS = [["films", "is", "never"], ["Paris"], ["good", "capitals", "of", "France", "!"] * 4, ["the", "films"]]
TAGGED = TaggedText(WORDS, [["B-X"] + ["O"] * (len(words) - 1) for words in WORDS], [1, 1, 2, 2])
MODE = "last"


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
    with pytest.raises(ValueError, match="`align`"):
        next(text_features(encoder, preprocessor, TEXTS, (0,), align="letters"))


def test_long_passes_say_how_far_they_are(encoder, preprocessor, tmp_path, monkeypatch, caplog):
    """With a clock by which every batch takes twenty seconds."""
    monkeypatch.setattr(callbacks, "time", types.SimpleNamespace(perf_counter=itertools.count(0, 20).__next__))
    caplog.set_level("INFO", "kbert")
    list(text_features(encoder, preprocessor, ["the film"] * 3, (0,), batch_size=1))
    assert not caplog.records  # how many there are is not known
    list(text_features(encoder, preprocessor, ["the film"] * 3, (0,), batch_size=1, total=3))
    write_word_features(tmp_path / "words.npy", encoder, preprocessor, TAGGED, (0,), context="sentence", batch_size=1)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:2] == ["1 of 3 texts read, 0:00:40 left", "2 of 3 texts read, 0:00:20 left"]
    assert lines[2].startswith("1 of ") and "windows read, 0:0" in lines[2]


def test_layers_count_from_both_ends():
    assert check_layers([-1, 0, 2, -3], 2) == (2, 0, 2, 0)
    for layers in ([3], [-4], []):
        with pytest.raises(ValueError, match="Expected layers from -3 to 2"):
            check_layers(layers, 2)


@pytest.fixture(scope="module")
def cache(encoder, preprocessor, tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "train.npy"
    write_word_features(path, encoder, preprocessor, TAGGED, range(3), batch_size=2)
    return path


def test_the_cache_holds_every_word_with_its_document(cache, encoder, preprocessor):
    stored = np.load(cache)
    assert stored.dtype == np.float16 and stored.shape == (26, 3, 12)
    texts = [" ".join(word for row in rows for word in WORDS[row]) for rows in ((0, 1), (2, 3))]
    expected = [features for _, features in text_features(encoder, preprocessor, texts, range(3), align="words")]
    np.testing.assert_allclose(stored, np.concatenate(expected), atol=2e-3)
    before = cache.stat().st_mtime_ns
    write_word_features(cache, None, None, TAGGED, range(3))  # nothing is done again
    assert cache.stat().st_mtime_ns == before


def test_the_cache_takes_its_room_before_it_is_computed(preprocessor, encoder, tmp_path, monkeypatch):
    """It is written through a memory map, where a full disk would end the process without a word."""

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FullDisk, match=f"{tmp_path}/train.npy: not written, .*: 0.0 MB are needed"):
        write_word_features(tmp_path / "train.npy", encoder, preprocessor, TAGGED, range(3))
    assert not (tmp_path / "train.npy").exists()


def test_batches_of_sentences(cache):
    stored = np.load(cache).astype("float32")
    sentences = FeatureSentences(cache, TAGGED, ["O", "B-X"], [2, 0])
    batch = sentences.batch(np.array([3, 0]))
    assert batch["features"].shape == (2, 3, 2, 12) and batch["mask"].tolist() == [[True, True, False], [True] * 3]
    np.testing.assert_array_equal(batch["features"][0, :2], stored[24:][:, [2, 0]])
    np.testing.assert_array_equal(batch["features"][1], stored[:3][:, [2, 0]])
    assert batch["labels"].tolist() == [[1, 0, -1], [1, 0, 0]] and not batch["features"][0, 2].any()
    whole = list(feature_dataset(sentences, batch_size=2, seed=3).take(40))
    part = list(feature_dataset(sentences, batch_size=2, seed=3, start_step=37).take(3))
    for (x, y), (x2, y2) in zip(whole[37:], part, strict=True):
        np.testing.assert_array_equal(x["features"], x2["features"])
        np.testing.assert_array_equal(y["logits"], y2["logits"])
    with pytest.raises(ValueError, match="the features of 4 words. Received: 26"):
        FeatureSentences(cache, TAGGED.take(range(2)), ["O"], [0])


def test_feature_modes_are_the_papers():
    assert [feature_layers(mode, 12) for mode in FEATURE_MODES] == [
        (0,),
        (11,),
        (12,),
        (9, 10, 11, 12),
        (9, 10, 11, 12),
        tuple(range(1, 13)),
    ]
    assert feature_layers("weighted-sum-last-four", 2) == (1, 2)
    with pytest.raises(ValueError, match="`mode` must be one of"):
        feature_layers("first", 12)


def test_weighted_layers_are_elmos():
    layer = ScalarMix()
    x = np.random.default_rng(0).normal(size=(2, 5, 3, 7)).astype("float32")
    np.testing.assert_allclose(layer(x), x.mean(axis=2), atol=1e-6)
    scores, scale = np.array([0.5, -1.0, 2.0], "float32"), np.float32(1.7)
    layer.set_weights([scores, scale])
    weights = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(layer(x), scale * (weights[:, None] * x).sum(axis=2), rtol=1e-5)
    assert layer.compute_output_shape((2, 5, 3, 7)) == (2, 5, 7)


@pytest.mark.slow  # test_features_of_texts
@pytest.mark.usefixtures("eagerly")
@pytest.mark.filterwarnings("error:Layer:UserWarning")  # a mask that a layer drops without saying so
@pytest.mark.parametrize("mode", ["concat-last-four", "weighted-sum-all"])
def test_padding_changes_nothing(mode, cache):
    keras.utils.set_random_seed(3)
    model = feature_tagger(mode, 2, 12, 2, units=5)
    sentences = FeatureSentences(cache, TAGGED, ["O", "B-X"], feature_layers(mode, 2))
    assert model.get_layer("lstm_0").count_params() == 2 * 4 * 5 * (12 * (2 if "concat" in mode else 1) + 5 + 1)
    together, alone = (evaluate_features(model, sentences, ["O", "B-X"], batch_size=size) for size in (4, 1))
    assert together.predictions == alone.predictions and [len(tags) for tags in together.predictions] == [3, 1, 20, 2]
    every = sentences.batch(np.arange(4))
    loss = ClassificationLoss()(every["labels"], model({name: every[name] for name in ("features", "mask")})["logits"])
    for scores in (together.scores, alone.scores):
        assert scores.pop("loss") == pytest.approx(float(loss))
    assert together.scores == alone.scores == entity_scores(TAGGED.tags, together.predictions)
    batch = sentences.batch(np.array([0, 2]))
    alone = sentences.batch(np.array([0]))
    logits = [np.asarray(model({k: b[k] for k in ("features", "mask")})["logits"]) for b in (batch, alone)]
    np.testing.assert_allclose(logits[0][0, :3], logits[1][0], atol=1e-5)


def test_one_process_at_a_time_writes_a_file(tmp_path):
    def texts():
        with pytest.raises(BlockingIOError, match="features.jsonl is in use by process"):
            write_features(tmp_path / "new" / "features.jsonl", [(["good"], np.ones((1, 1, 2)))], [-1])
        yield ["good"], np.zeros((1, 1, 2), "float32")

    assert write_features(tmp_path / "new" / "features.jsonl", texts(), [-1]) == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["features.jsonl"]


def _text(rows):
    return kbert.tasks.Tagging().read([{"words": words, "tags": tags} for words, tags in rows])


@pytest.mark.slow  # commands/test_feature_based.py
@pytest.mark.usefixtures("eagerly")
def test_curves_of_dev(tmp_path):
    write_tiny_directory(tmp_path / "init")
    options = {"outputs": ("hidden_states",), "sequence_length": 16}
    encoder = kbert.load_pretrained(tmp_path / "init", task="encoder", **options)
    rows = tagged_sentences(10)
    texts = {"train": _text(rows[:8]), "dev": _text(rows[8:])}
    tags = kbert.tasks.Tagging().settings(texts["train"])["labels"]
    done = {}
    for every in (2, None):
        training = FeatureTraining(steps=3, batch_size=4, units=3, learning_rate=0.05, evaluate_every=every)
        run = tmp_path / str(every)
        done[every] = train_feature_taggers(
            encoder, texts, tags, run, [MODE], sequence_length=16, training=training, features=tmp_path / "features"
        )[MODE]
    assert done[2]["dev"] == done[None]["dev"]
    evaluations = [json.loads(line) for line in (tmp_path / "2" / MODE / "evaluations.jsonl").open()]
    assert [one["step"] for one in evaluations] == [2, 3] and evaluations == done[2]["evaluations"]
    assert [one["step"] for one in done[None]["evaluations"]] == [3]
    assert all(evaluations[-1][name] == done[2]["dev"][name] for name in ("loss", "f1", "accuracy"))
    assert (tmp_path / "2" / MODE / "predictions.txt").is_file()

    shown = read_scalars(tmp_path / "2" / MODE / "logs")
    for tag in ("loss/loss", "accuracy/f1", "accuracy/accuracy"):
        assert [step for step, _ in shown["validation", tag]] == [2, 3]
    assert [step for step, _ in shown["train", "loss/loss"]] == [2, 3]
    gold = [tag for _, sentence in rows[8:] for tag in sentence]
    line = shown["baseline", "accuracy/accuracy"]
    assert [value for _, value in line] == [pytest.approx(gold.count("O") / len(gold))] * len(line)
    assert ("examples", "predictions/sentences") in tags_of(tmp_path / "2" / MODE / "logs", "text")
