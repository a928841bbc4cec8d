"""What lies at a path is recognised by its content."""

import shutil

import pytest
from helpers.hf_directory import GOLDEN, edit
from helpers.stored_models import assert_same_weights, load, make_model, save
from helpers.tiny_bert import VOCABULARY
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.weights.source import open_checkpoint


def format_of(path):
    return open_checkpoint(path).names.format


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The same encoder in every format."""
    path = tmp_path_factory.mktemp("saved")
    for format in ("huggingface", "google"):
        save(make_model("encoder"), path / format, format)
    return path


@pytest.mark.parametrize("format", ["huggingface", "google"])
@pytest.mark.parametrize("place", ["it", "run/model"])
def test_every_format_is_recognised_by_content(format, place, saved, tmp_path):
    shutil.copytree(saved / format, tmp_path / place)
    assert format_of(tmp_path / place.split("/")[0]) == format
    assert format_of(str(tmp_path / place)) == format


@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_every_format_keeps_a_vocabulary_with_an_empty_line(format, tmp_path):
    """As that of bert-base-japanese, whose other tokens keep their ids."""
    tokens = ["" if token == "bad" else token for token in VOCABULARY]
    tokenizer = kbert.BertTokenizer(tokens)
    kbert.save_pretrained(make_model("encoder"), tmp_path / "model", format=format, tokenizer=tokenizer)
    read = load(tmp_path / "model").pretrained.tokenizer
    assert read.vocabulary == tokens
    assert read(["a very bad film"]).to_list() == [[VOCABULARY.index(t) for t in ("a", "very", "[UNK]", "film")]]


@pytest.mark.parametrize(
    "format,file",
    [
        ("huggingface", "model.safetensors"),
        ("huggingface", "config.json"),
    ],
)
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


@pytest.mark.parametrize("form, weights", [("safetensors", "model.safetensors"), ("old_bin", "pytorch_model.bin")])
def test_the_old_config_beside_weights_of_torch(tmp_path, form, weights):
    """As pytorch-pretrained-bert wrote it, and many models of a domain were published."""
    directory = shutil.copytree(GOLDEN / f"hf_{form}", tmp_path / "it")
    edit(directory / "config.json", model_type=..., architectures=...)
    (directory / "config.json").rename(directory / "bert_config.json")
    for source in (directory, directory / "bert_config.json", directory / weights):
        stored = open_checkpoint(source)
        assert stored.names.format == "huggingface" and "the names of the tensors are BERT's" in stored.remarks[0]
        assert stored.description.config.activation == "gelu_erf"  # in Google's checkpoints the tanh form
    assert_same_weights(load(directory), load(GOLDEN / f"hf_{form}"))


def test_something_else(tmp_path):
    def open_directory_with(files):
        shutil.rmtree(tmp_path / "it", ignore_errors=True)
        (tmp_path / "it" / "2").mkdir(parents=True)
        for name in files:
            (tmp_path / "it" / name).write_text("{}")
        if not (tmp_path / "it" / "2" / "saved_model.pb").exists():
            (tmp_path / "it" / "2").rmdir()
        open_checkpoint(tmp_path / "it")

    wrong_inputs(
        open_directory_with,
        ([], "which holds nothing"),
        (["notes.txt"], r"which holds \['notes.txt'\]"),
        (["config.json"], "Expected a Hugging Face directory"),
        (["model.safetensors"], "Expected a Hugging Face directory"),
        (["saved_model.pb"], "an exported SavedModel: kbert predict --source and tf.saved_model.load read it"),
        (["2/saved_model.pb"], "give the directory that it was exported from"),
    )
    for name, message in (("model.keras", "keras.models.load_model"), ("x.bin", "none of their files")):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(ValueError, match=message):
            open_checkpoint(tmp_path / name)
