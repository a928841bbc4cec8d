"""What lies at a path is recognised by its content."""

import shutil

import pytest
from helpers.hf_directory import GOLDEN
from helpers.stored_models import load, make_model
from helpers.tiny_bert import VOCABULARY
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.weights.open_checkpoint import open_checkpoint


def format_of(path):
    return open_checkpoint(path).names.format


FORMATS = ("kbert", "huggingface", "google", "kerashub")
TOKENS = ["" if token == "bad" else token for token in VOCABULARY]  # an empty line, as bert-base-japanese has one


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The same encoder in every format."""
    path = tmp_path_factory.mktemp("saved")
    for format in FORMATS:
        model = make_model("encoder", num_layers=1)
        kbert.save_pretrained(model, path / format, format=format, tokenizer=kbert.BertTokenizer(TOKENS))
    return path


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_recognised_by_content(format, saved, tmp_path):
    shutil.copytree(saved / format, tmp_path / "run/model")
    assert format_of(tmp_path / "run/model") == format_of(str(tmp_path / "run")) == format
    tokenizer = load(tmp_path / "run").pretrained.tokenizer
    assert tokenizer.vocabulary == TOKENS
    assert tokenizer(["a bad film"]).to_list() == [[TOKENS.index(token) for token in ("a", "[UNK]", "film")]]


@pytest.mark.parametrize("format", ["kbert", "kerashub"])
@pytest.mark.parametrize("file", ["model.weights.h5", "config.json"])
def test_a_file_stands_for_its_directory(saved, format, file):
    assert format_of(saved / format / file) == format


def test_a_directory_of_two_formats(tmp_path):
    """Hugging Face's copies of Google's models have Google's config beside their own."""
    shutil.copytree(GOLDEN / "hf_safetensors", tmp_path / "it")
    shutil.copy(GOLDEN / "google_pretraining/bert_config.json", tmp_path / "it")
    assert format_of(tmp_path / "it") == "huggingface"
    (tmp_path / "it/config.json").unlink()
    for file in (GOLDEN / "google_pretraining").glob("bert_model.ckpt.*"):
        shutil.copy(file, tmp_path / "it")
    assert format_of(tmp_path / "it") == "google"


def test_something_else(tmp_path):
    def open_directory_with(files):
        shutil.rmtree(tmp_path / "it", ignore_errors=True)
        (tmp_path / "it").mkdir()
        for name in files:
            (tmp_path / "it" / name).parent.mkdir(exist_ok=True)
            (tmp_path / "it" / name).write_text("{}")
        open_checkpoint(tmp_path / "it")

    wrong_inputs(
        open_directory_with,
        ([], "which holds nothing"),
        (["notes.txt"], r"which holds \['notes.txt'\]"),
        (["config.json"], "Expected a kbert directory"),
        (["model.safetensors"], "Expected a kbert directory"),
        (["saved_model.pb"], "an exported SavedModel: kbert predict --source and tf.saved_model.load read it"),
        (["2/saved_model.pb"], "give the directory that it was exported from"),
    )
    for name, message in (("model.keras", "keras.models.load_model"), ("x.bin", "none of their files")):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(ValueError, match=message):
            open_checkpoint(tmp_path / name)


def test_a_kbert_directory_has_its_own_vocabulary(saved):
    with pytest.raises(ValueError, match="has a vocabulary of its own"):
        load(saved / "kbert", vocabulary=saved / "kbert/vocab.txt")
