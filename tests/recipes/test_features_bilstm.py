"""Table 7: which states a word has, which layers a row reads, and taggers that resume."""

import json

import numpy as np
import pytest
from features_bilstm import ROWS, batches_of, features_bilstm, reader
from helpers.run_recipe import as_flags, run_recipe
from helpers.tiny_directory import write_tiny_directory
from helpers.toy_tags import tagged_sentences, write_conll

import kbert
from kbert.finetuning.features import text_features
from kbert.preprocessing import TaggingPreprocessor

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    write_conll(path / "train.conll", tagged_sentences(40))
    write_conll(path / "dev.conll", tagged_sentences(8, start=40))
    return path


def flags(home, output, **more):
    paths = {"train": home / "train.conll", "dev": home / "dev.conll", "source": home / "init"}
    return as_flags(**paths, output=output, sentences=8, epochs=1, units=4, sequence_length=16, **more)


def test_words_have_the_states_of_their_first_token_in_their_document(home):
    text = kbert.tasks.Tagging().read(home / "train.conll")
    encoder = kbert.load_pretrained(home / "init", task="encoder", outputs=("hidden_states",))
    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, 16)
    read = reader(encoder, preprocessor, text, ["O", "B-PRO", "I-PRO"])
    inputs, labels = read(np.array([3, 1, 4]), [1, 0])
    documents = [" ".join(word for row in rows for word in text.words[row]) for rows in text.texts("document")]
    states = [values for _, values in text_features(encoder, preprocessor, documents, (1, 0), align="words")]
    states = np.concatenate(states)
    ends = np.cumsum([len(words) for words in text.words])
    assert [len(text.words[row]) for row in (3, 1, 4)] == [4, 4, 3]
    for row, sentence in enumerate((3, 1, 4)):
        length = len(text.words[sentence])
        expected = states[ends[sentence] - length : ends[sentence]]
        np.testing.assert_allclose(inputs["states"][row, :length], expected, atol=2e-3)
        assert inputs["mask"][row].numpy().tolist() == [True] * length + [False] * (4 - length)
    tags = [["O", "B-PRO", "I-PRO"].index(tag) if "CON" not in tag else -1 for tag in text.tags[4]]
    assert labels["logits"][2].numpy().tolist() == [*tags, -1]


def test_an_epoch_has_every_sentence_once_in_an_order_of_its_own(home):
    text = kbert.tasks.Tagging().read(home / "train.conll")
    first, again, second = (batches_of(text, 8, 3, epoch) for epoch in (0, 0, 1))
    assert first.shape == (5, 8) and sorted(first.reshape(-1)) == sorted(second.reshape(-1)) == list(range(40))
    assert np.array_equal(first, again) and not np.array_equal(first, second)
    assert [len({len(text.words[row]) for row in batch}) for batch in first].count(1) == 4  # of lengths 3 and 4


def test_rows_read_the_papers_layers():
    assert [list(layers(12)) for _, layers in ROWS.values()] == [
        [0],
        [11],
        [12],
        [9, 10, 11, 12],
        [9, 10, 11, 12],
        list(range(1, 13)),
    ]
    assert [list(layers(2)) for _, layers in ROWS.values()] == [[0], [1], [2], [1, 2], [1, 2], [1, 2]]


def test_the_scores_of_rows(home, tmp_path, capsys):
    rows = ["embeddings", "weighted-sum-all", "concat-last-four"]
    scores = run_recipe("features_bilstm", *flags(home, tmp_path, rows=rows))
    assert list(scores) == rows and all(0 <= score <= 100 for score in scores.values())
    assert json.loads((tmp_path / "scores.json").read_text()) == scores
    assert "concat-last-four: F1 " in capsys.readouterr().out
    assert run_recipe("features_bilstm", *flags(home, tmp_path, rows=rows)) == scores  # the run is finished


def test_a_killed_run_resumes_exactly(home, tmp_path, monkeypatch):
    options = {"rows": ["weighted-sum-all"], "sentences": 8, "units": 4, "epochs": 3, "sequence_length": 16}
    paths = home / "train.conll", home / "dev.conll", home / "init"
    whole = _weights(features_bilstm, monkeypatch, *paths, tmp_path / "whole", **options)
    save = kbert.training.ExactResume.on_epoch_end

    def stop(self, epoch, logs=None):
        save(self, epoch, logs)
        if epoch == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(kbert.training.ExactResume, "on_epoch_end", stop)
        features_bilstm(*paths, tmp_path / "run", **options)
    resumed = _weights(features_bilstm, monkeypatch, *paths, tmp_path / "run", **options)
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one, other)


def _weights(recipe, monkeypatch, *arguments, **options):
    """The weights of the one model that the recipe trains, at its end."""
    made = []
    save = kbert.training.ExactResume.on_epoch_end
    with monkeypatch.context() as patch:
        patch.setattr(
            kbert.training.ExactResume,
            "on_epoch_end",
            lambda self, epoch, logs=None: (save(self, epoch, logs), made.append(self.model)),
        )
        recipe(*arguments, **options)
    return made[-1].get_weights()
