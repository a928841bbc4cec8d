"""The tokenizer of a Hugging Face directory, out of whichever files are there."""

import json

import pytest
from golden.google_make import VOCABULARY
from helpers.hf_directory import GOLDEN, edit
from helpers.stored_models import assert_same_weights, load
from helpers.tiny_bert import tiny_config, tiny_tokenizer

import kbert
from kbert.text.special_tokens import MOST, tokens_in_text
from kbert.weights.formats.huggingface_tokenizer import read_huggingface_tokenizer

CASED = [token.capitalize() if token.isalpha() else token for token in VOCABULARY]


def write_vocabulary(directory, tokens):
    (directory / "vocab.txt").write_text("\n".join(tokens) + "\n")


def test_what_transformers_wrote():
    """There is no vocab.txt, only tokenizer.json."""
    found = read_huggingface_tokenizer(GOLDEN / "hf_safetensors")
    assert found.vocabulary == VOCABULARY and not found.remarks
    settings = {"lowercase": True, "strip_accents": None, "split_on_cjk": True, "max_word_length": 100}
    assert found.settings == settings
    tokenizer = kbert.BertTokenizer(found.vocabulary, **found.settings)
    assert tokenizer(["Paris is big."]).to_list() == [[VOCABULARY.index(t) for t in ("paris", "is", "big", ".")]]


def test_no_tokenizer_at_all(caplog):
    found = read_huggingface_tokenizer(GOLDEN / "hf_bin")
    assert found.vocabulary is None and "no vocabulary" in found.remarks[0]
    given = read_huggingface_tokenizer(GOLDEN / "hf_bin", GOLDEN / "google_pretraining/vocab.txt")
    assert given.vocabulary == VOCABULARY and given.settings["lowercase"]
    assert load(GOLDEN / "hf_bin", task="encoder").pretrained.tokenizer is None
    assert "hf_bin: no vocabulary (vocab.txt): the model takes token ids, but no strings" in caplog.text


def test_its_settings(directory):
    config, fast = directory / "tokenizer_config.json", directory / "tokenizer.json"
    edit(config, do_lower_case=False, strip_accents=True, tokenize_chinese_chars=False)
    settings = read_huggingface_tokenizer(directory).settings
    assert settings == {"lowercase": False, "strip_accents": True, "split_on_cjk": False, "max_word_length": 100}
    edit(config, do_lower_case=..., strip_accents=..., tokenize_chinese_chars=...)
    content = json.loads(fast.read_text())
    content["normalizer"] |= {"lowercase": True, "strip_accents": False}
    content["model"]["max_input_chars_per_word"] = 77
    fast.write_text(json.dumps(content))
    settings = read_huggingface_tokenizer(directory).settings
    assert settings == {"lowercase": True, "strip_accents": False, "split_on_cjk": True, "max_word_length": 77}


def test_flags_as_numbers(directory):
    config = directory / "tokenizer_config.json"
    edit(config, do_lower_case=0, strip_accents=1, tokenize_chinese_chars=0)
    settings = read_huggingface_tokenizer(directory).settings
    assert settings == {"lowercase": False, "strip_accents": True, "split_on_cjk": False, "max_word_length": 100}
    assert all(type(settings[name]) is bool for name in ("lowercase", "strip_accents", "split_on_cjk"))
    edit(config, do_lower_case=1, strip_accents=None, tokenize_chinese_chars=1)
    assert load(directory, task="encoder").pretrained.tokenizer.lowercase is True
    edit(config, do_basic_tokenize=0)
    assert read_huggingface_tokenizer(directory).vocabulary is None
    for wrong in ("false", 2, 0.0):
        edit(config, do_lower_case=wrong, do_basic_tokenize=...)
        with pytest.raises(ValueError, match="`lowercase` must be True or False. Received: "):
            load(directory, task="encoder")


@pytest.mark.parametrize("tokens,lowercase", [(VOCABULARY, True), (CASED, False)])
def test_a_null_says_nothing(directory, tokens, lowercase):
    """As a flag that is not there: tokenizer.json says it or, without one, the vocabulary."""
    config, fast = directory / "tokenizer_config.json", directory / "tokenizer.json"
    edit(config, do_lower_case=None, tokenize_chinese_chars=None, do_basic_tokenize=None)
    content = json.loads(fast.read_text())
    content["normalizer"] |= {"lowercase": lowercase, "handle_chinese_chars": False}
    fast.write_text(json.dumps(content))
    settings = read_huggingface_tokenizer(directory).settings
    assert settings == {"lowercase": lowercase, "strip_accents": None, "split_on_cjk": False, "max_word_length": 100}
    fast.unlink()
    write_vocabulary(directory, tokens)
    found = read_huggingface_tokenizer(directory)
    assert found.settings == {"lowercase": lowercase, "strip_accents": None, "max_word_length": 100}
    assert "does not say so" in found.remarks[0]


def test_tokens_that_were_added_after_training(directory):
    write_vocabulary(directory, VOCABULARY[:27])
    (directory / "added_tokens.json").write_text(json.dumps({VOCABULARY[28]: 28, VOCABULARY[27]: 27}))
    found = read_huggingface_tokenizer(directory)
    assert found.vocabulary == VOCABULARY and "added after training" in found.remarks[0]


def with_added(directory, tokens, **flags):
    """The golden tokenizer with tokens that were added to it, as transformers writes them."""
    path = directory / "tokenizer.json"
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False} | flags
    added = [{"id": len(VOCABULARY) + i, "content": token, **flags} for i, token in enumerate(tokens)]
    edit(path, added_tokens=json.loads(path.read_text())["added_tokens"] + added)


ADDED = ["stent", "C++", "<3", "COVID-19"]
TEXTS = {"C++ is<3 big Stent": [30, 15, 31, 21, 29], "paris,COVID-19!": [17, 7, 32, 2], "big C+ < 3": [21, 2, 2, 2, 2]}


def test_added_tokens_are_found_in_texts(directory, caplog):
    with_added(directory, ADDED)
    found = read_huggingface_tokenizer(directory)
    assert found.settings["special_tokens_in_text"] == ADDED[1:]  # the first is a word
    assert "in upper and lower case, kbert only as written: ['C++', 'COVID-19']" in caplog.text
    assert kbert.BertTokenizer(found.vocabulary, **found.settings)(list(TEXTS)).to_list() == list(TEXTS.values())


@pytest.mark.parity
def test_the_library_finds_the_same(directory):
    tokenizers = pytest.importorskip("tokenizers")
    with_added(directory, ADDED)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    assert [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS] == list(TEXTS.values())


def test_more_added_tokens_than_kbert_finds_in_texts(directory, caplog):
    with_added(directory, [f"<{i}>" for i in range(40)])
    found = read_huggingface_tokenizer(directory)
    assert len(found.vocabulary) == len(VOCABULARY) + 40 and len(found.settings["special_tokens_in_text"]) == MOST
    assert "does not find these added tokens in texts: ['<37>', '<38>', '<39>']" in caplog.text
    with_added(directory, [f"[E{i}]" for i in range(40)], special=True, normalized=False)
    found = read_huggingface_tokenizer(directory)
    assert found.vocabulary is None and "it has 40 special tokens of its own" in found.remarks[0]


@pytest.mark.parametrize(
    "change,remark",
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "BertJapaneseTokenizer is not a WordPiece tokenizer"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize is false"),
    ],
)
def test_another_tokenizer_is_none_that_kbert_has(directory, change, remark):
    edit(directory / "tokenizer_config.json", **change)
    found = read_huggingface_tokenizer(directory)
    assert found.vocabulary is None and remark in found.remarks[0] and "but no strings" in found.remarks[0]
    assert read_huggingface_tokenizer(directory, GOLDEN / "google_pretraining/vocab.txt").vocabulary == VOCABULARY


@pytest.mark.parametrize("change", ["swapped", "shifted"])
def test_a_vocabulary_that_contradicts_tokenizer_json(directory, change):
    *tokens, one, two = VOCABULARY
    line = len(tokens) + 1
    tokens += [two, one] if change == "swapped" else ["extra", one, two]
    write_vocabulary(directory, tokens)
    with pytest.raises(
        ValueError, match=rf"vocab.txt, line {line}: expected {one!r}, .* in tokenizer.json. Received: "
    ):
        read_huggingface_tokenizer(directory)
    (directory / "tokenizer.json").unlink()
    assert read_huggingface_tokenizer(directory).vocabulary == tokens


@pytest.mark.parametrize(
    "change,remark",
    [
        ({"model": {"type": "BPE", "vocab": {}}}, "is a BPE tokenizer, not WordPiece"),
        ({"normalizer": None}, "has the normalizer None, not BertNormalizer"),
        ({"normalizer": {"type": "Sequence"}}, "has the normalizer Sequence, not"),
        ({"normalizer": {"type": "BertNormalizer", "clean_text": False}}, "keeps control characters"),
        ({"pre_tokenizer": {"type": "WhitespaceSplit"}}, "has the pre_tokenizer WhitespaceSplit, not BertPreTokenizer"),
    ],
)
def test_a_fast_tokenizer_is_none_that_kbert_has(directory, change, remark):
    edit(directory / "tokenizer.json", **change)
    found = read_huggingface_tokenizer(directory)
    assert found.vocabulary is None and remark in found.remarks[0] and "but no strings" in found.remarks[0]


def test_a_model_without_a_tokenizer(directory):
    (directory / "tokenizer.json").unlink()
    model = load(directory)
    assert model.pretrained.tokenizer is None
    with pytest.raises(ValueError, match="tokenizer"):
        kbert.build_pipeline(model)
    kbert.save_pretrained(model, directory.parent / "out")
    assert_same_weights(load(directory.parent / "out"), model)


def test_special_tokens_of_other_names(directory):
    edit(directory / "tokenizer_config.json", mask_token={"content": "<mask>"})
    with pytest.raises(ValueError, match="kbert's mask_token is '\\[MASK\\]'. Received: '<mask>'"):
        read_huggingface_tokenizer(directory)


def test_holes_in_the_vocabulary(directory):
    content = json.loads((directory / "tokenizer.json").read_text())
    content["model"]["vocab"]["new"] = 40
    (directory / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="ids 0 … 28, each once"):
        read_huggingface_tokenizer(directory)


def test_white_space_around_a_token_is_dropped_as_in_vocab_txt(directory):
    content = json.loads((directory / "tokenizer.json").read_text())
    content["model"]["vocab"][" newer\u3000"] = len(VOCABULARY)
    (directory / "tokenizer.json").write_text(json.dumps(content))
    assert read_huggingface_tokenizer(directory).vocabulary == [*VOCABULARY, "newer"]


def test_special_tokens_in_text_come_back(tmp_path):
    """The library's files name one's own; which of BERT's are read too stands beside them."""
    for tokens in (["[SEP]", "very", "[CLS]", "bad"], ["very"], True):
        tokenizer = tiny_tokenizer(special_tokens_in_text=tokens)
        encoder = kbert.BertEncoder(tiny_config())
        kbert.save_pretrained(encoder, tmp_path / "out", format="huggingface", tokenizer=tokenizer, overwrite=True)
        assert load(tmp_path / "out").pretrained.tokenizer.settings() == tokenizer.settings()
        edit(tmp_path / "out/tokenizer_config.json", additional_special_tokens=["film"])
        edit(tmp_path / "out/tokenizer.json", added_tokens=[])
        others = load(tmp_path / "out").pretrained.tokenizer.special_tokens_in_text
        assert set(others) == {"film", *tokens_in_text(tokenizer.special_tokens_in_text)} - {"very", "bad"}


def test_what_kbert_writes_comes_back(tmp_path):
    tokenizer = tiny_tokenizer(lowercase=True, strip_accents=False, split_on_cjk=False, max_word_length=55)
    encoder = kbert.BertEncoder(tiny_config())
    kbert.save_pretrained(encoder, tmp_path / "out", format="huggingface", tokenizer=tokenizer)
    assert load(tmp_path / "out").pretrained.tokenizer.settings() == tokenizer.settings()
    (tmp_path / "out/vocab.txt").unlink()
    found = read_huggingface_tokenizer(tmp_path / "out")
    assert found.vocabulary == tokenizer.vocabulary
    assert {**tokenizer.settings(), **found.settings} == tokenizer.settings()
