"""Words added to a vocabulary: unused places first, rows from the mean of their pieces, nothing else changed."""

import numpy as np
import pytest
from helpers.tiny_corpus import VOCABULARY, make_documents, make_pretrainer, make_tokenizer

import kbert
from kbert.corpus.records import Records
from kbert.corpus.write_records import write_records
from kbert.models.copies import copy_model
from kbert.pretraining.masking import TokenMasking
from kbert.weights import extend_vocabulary

TABLE = "embeddings/token_embedding/embeddings"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    kbert.save_pretrained(make_pretrainer(16), path, tokenizer=make_tokenizer())
    return kbert.load_pretrained(path)


def test_words_take_unused_places_then_new_rows(model, tmp_path):
    extended = extend_vocabulary(model, ["abc", "xy", "a", "abc"])
    tokenizer = extended.pretrained.tokenizer
    expected = [token if token != "[unused0]" else "abc" for token in VOCABULARY] + ["xy"]
    assert tokenizer.vocabulary == expected and extended.config.vocabulary_size == len(VOCABULARY) + 1
    pieces = ["abc", "xy", "xy", "##z", "b"]
    assert [piece.decode() for piece in tokenizer.pieces(["abc xy xyz b"])[0].numpy()] == pieces
    old, new = ({v.path: v.numpy() for v in one.weights} for one in (model, extended))
    assert old.keys() == new.keys()
    for path in old.keys() - {TABLE, "masked_lm_head/output_bias"}:
        np.testing.assert_array_equal(old[path], new[path], err_msg=path)
    for path in (TABLE, "masked_lm_head/output_bias"):
        for word, i in (("abc", 1), ("xy", len(VOCABULARY))):
            ids = [VOCABULARY.index(piece) for piece in (word[0], *(f"##{letter}" for letter in word[1:]))]
            np.testing.assert_allclose(new[path][i], old[path][ids].mean(axis=0), rtol=1e-6, atol=1e-9)
        others = [i for i in range(len(VOCABULARY)) if i != 1]
        np.testing.assert_array_equal(new[path][others], old[path][others])
    kbert.save_pretrained(extended, tmp_path / "saved")
    again = kbert.load_pretrained(tmp_path / "saved")
    assert again.pretrained.tokenizer.vocabulary == expected
    assert model.pretrained.tokenizer.vocabulary == VOCABULARY


@pytest.mark.slow  # its weights: above; a training from a model: pretraining/run/test_given_models.py
@pytest.mark.usefixtures("eagerly")
def test_its_pre_training_goes_on(model):
    extended = extend_vocabulary(model, ["abc", "xy"])
    row = extended.encoder.weights[0].numpy()[1].copy()
    options = {"batch_size": 4, "sequence_length": 16, "evaluation_batches": 1, "packed": False, "held_out": 0.2}
    documents = [["abc xy abc xy .", *document] for document in make_documents(60)]
    run = kbert.pretrain(documents, init=extended, steps=2, **options)
    assert run.tokenizer.vocabulary[1] == "abc"
    assert not np.array_equal(run.model.encoder.weights[0].numpy()[1], row)


@pytest.mark.parametrize("word", ["Abc", "a-b", "a b", "", "ä"])
def test_what_is_no_word_of_the_tokenizer_is_an_error(model, word):
    with pytest.raises(ValueError, match=f"Received: '{word}', which it reads as"):
        extend_vocabulary(model, [word])


def test_a_string_and_a_model_without_tokenizer_are_errors(model):
    with pytest.raises(TypeError, match="`words` must be a list of str. Received: 'abc'"):
        extend_vocabulary(model, "abc")
    with pytest.raises(ValueError, match="loaded with its tokenizer"):
        extend_vocabulary(make_pretrainer(16), ["abc"])


@pytest.mark.parametrize("format", ["google", "huggingface"])
def test_special_tokens_of_your_own(model, format, tmp_path):
    own = ["[E1]", "[/E1]", "<a b>"]
    extended = extend_vocabulary(model, special_tokens=own)
    tokenizer = extended.pretrained.tokenizer
    assert tokenizer.vocabulary == [t if t != "[unused0]" else "[E1]" for t in VOCABULARY] + own[1:]
    texts, expected = ["[E1]ab[/E1] a<a b>"], [["[E1]", "a", "##b", "[/E1]", "a", "<a b>"]]
    assert [[piece.decode() for piece in row] for row in tokenizer.pieces(texts).to_list()] == expected
    kbert.save_pretrained(extended, tmp_path / "saved", format=format)
    again = kbert.load_pretrained(tmp_path / "saved").pretrained.tokenizer
    assert again.settings() == tokenizer.settings() and again(texts).to_list() == tokenizer(texts).to_list()
    old, new = (one.encoder.get_weights()[0] for one in (model, extended))
    pieces = model.pretrained.tokenizer(["[E1]"]).to_list()[0]
    np.testing.assert_allclose(new[1], old[pieces].mean(axis=0), rtol=1e-6, atol=1e-9)
    unused = extend_vocabulary(model, special_tokens=["[unused0]"])
    assert unused.config == model.config and unused.pretrained.tokenizer(["[unused0]"]).to_list() == [[1]]


def test_unused_places_of_special_tokens_stay(model):
    for first, second in (({}, {"special_tokens": ["[unused0]"]}), ({"special_tokens": ["[unused0]"]}, {})):
        extended = extend_vocabulary(extend_vocabulary(model, **first), ["xy"], **second)
        assert extended.pretrained.tokenizer.vocabulary == [*VOCABULARY, "xy"]


def test_a_special_token_that_was_read_as_nothing_has_the_row_of_unknown_words(model):
    extended = extend_vocabulary(model, special_tokens=["\u200b"])
    table = extended.encoder.get_weights()[0]
    np.testing.assert_array_equal(table[1], table[extended.pretrained.tokenizer.unk_id])


def test_lora_is_merged(model):
    batch = {"token_ids": np.array([[5, 6, 7]]), "mask_positions": np.array([[1]])}
    tuned = copy_model(model)
    tuned.pretrained = model.pretrained
    tuned.enable_lora(2)
    for variable in tuned.trainable_variables:
        variable.assign_add(np.ones(variable.shape) / 8)
    extended = extend_vocabulary(tuned, ["xy"])
    old, new = (one(batch)["mlm_logits"][..., : len(VOCABULARY)] for one in (tuned, extended))
    taken = [i for i in range(len(VOCABULARY)) if i != 1]
    np.testing.assert_allclose(np.array(old)[..., taken], np.array(new)[..., taken], atol=1e-4)


def test_special_tokens_are_never_masked_and_prompts_have_them(model):
    extended = extend_vocabulary(model, special_tokens=["[E1]"])
    tokenizer = extended.pretrained.tokenizer
    batch = kbert.build_pipeline(extended).preprocessor(["[E1] a [E1] b [E1]"] * 20)
    inputs = {name: batch[name] for name in ("token_ids", "padding_mask")}
    masking = TokenMasking(tokenizer, max_predictions=5, mask_rate=1.0, seed=1)
    _, ids, weights = masking(inputs)
    assert set(ids[weights > 0].numpy()) == set(tokenizer(["a b"]).to_list()[0])
    prompts = tokenizer.reading_special_tokens()
    assert prompts(["[E1][MASK]"]).to_list() == [[1, tokenizer.mask_id]]
    pipeline = kbert.build_pipeline(extended)
    assert pipeline.settings()["tokenizer"]["special_tokens_in_text"] == ["[E1]"]


def test_records_are_written_with_them(model, tmp_path):
    tokenizer = extend_vocabulary(model, special_tokens=["[E1]"]).pretrained.tokenizer
    write_records([["[E1] a b", "c [E1]"]] * 3, tokenizer, tmp_path / "records", held_out=0.0)
    records = Records(tmp_path / "records")
    assert records.tokenizer().settings() == tokenizer.settings()
    records.check_tokenizer(tokenizer)


@pytest.mark.parity
def test_transformers_reads_them_the_same_way(model, tmp_path):
    transformers = pytest.importorskip("transformers")
    extended = extend_vocabulary(model, special_tokens=["[E1]", "<a b>"])
    kbert.save_pretrained(extended, tmp_path / "saved", format="huggingface")
    theirs, own = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved"), extended.pretrained.tokenizer
    texts = ["[E1]ab[E1] a<a b>b", "x [e1] <ab>"]
    assert theirs(texts, add_special_tokens=False)["input_ids"] == own(texts).to_list()
    theirs.save_pretrained(tmp_path / "saved")
    again = kbert.load_pretrained(tmp_path / "saved").pretrained.tokenizer
    assert again.special_tokens_in_text == own.special_tokens_in_text and again(texts).to_list() == own(texts).to_list()
