"""BertTokenizer as a Keras layer: calls, saving, graphs, other environments."""

import copy

import keras
import pytest
import tensorflow as tf
from helpers.forked_python import ForkedPython
from helpers.reference_tokenizer import SPECIAL_TOKENS

import kbert
from kbert.text.tokenizer import BertTokenizer, unknown_fraction, warn_of_unknown

VOCABULARY = [*SPECIAL_TOKENS, *"hello world ##s , ! naive Hello 中 [ ] mask i ς ##σ".split()]
# What a stock TensorFlow Serving 2.12 registers, beside TensorFlow's own ops.
TEXT_OPS = {"NormalizeUTF8", "FastWordpieceTokenizeWithOffsets"}
TABLE_OPS = ("Table", "Hash", "Lookup", "PyFunc", "VarHandle")


def forked_python(script, **environment):
    """Runs a script in a process that has imported TensorFlow and kbert, and returns what it prints."""
    done = ForkedPython(None, code=script, **environment).finish()
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.fixture
def tokenizer():
    return BertTokenizer(VOCABULARY)


def test_the_example():
    tokenizer = kbert.BertTokenizer(VOCABULARY, lowercase=True)
    ids = tokenizer(tf.constant(["Hello, worlds!", "naïve foo"]))
    assert isinstance(ids, tf.RaggedTensor) and ids.dtype == tf.int32 and ids.shape.as_list() == [2, None]
    assert ids.to_list() == [[5, 8, 6, 7, 9], [10, 1]]
    assert tokenizer.tokenize(tf.constant(["Hello, worlds!"])).to_list() == [[5, 8, 6, 7, 9]]
    assert [text.decode() for text in tokenizer.detokenize(ids).numpy()] == ["hello , worlds !", "naive [UNK]"]


def test_detokenize_takes_dense_and_empty_rows(tokenizer):
    assert tokenizer.detokenize([[5, 7], [6, 0]]).numpy().tolist() == [b"hellos", b"world [PAD]"]
    assert tokenizer.detokenize(tf.ragged.constant([[], [5]], dtype=tf.int32)).numpy().tolist() == [b"", b"hello"]
    assert tokenizer.detokenize([5, 8]).numpy() == b"hello ,"


def test_pieces_are_the_tokens_of_the_ids(tokenizer):
    assert tokenizer.pieces(["hellos", ""]).to_list() == [[b"hello", b"##s"], []]
    assert tokenizer.pieces("hello world").numpy().tolist() == [b"hello", b"world"]


def test_ranks(tokenizer):
    assert tokenizer("hello world").numpy().tolist() == [5, 6]
    assert tokenizer(["hello", "world world"]).to_list() == [[5], [6, 6]]
    assert tokenizer([["hello", "world"], ["", "!"]]).to_list() == [[[5], [6]], [[], [9]]]
    assert tokenizer(tf.ragged.constant([["hello"], [], ["!", "!!"]])).to_list() == [[[5]], [], [[9], [9, 9]]]
    assert tokenizer(tf.constant([], tf.string)).to_list() == []


def test_attributes(tokenizer):
    assert tokenizer.vocabulary == VOCABULARY and tokenizer.vocabulary_size == len(VOCABULARY)
    names = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")
    assert [getattr(tokenizer, name) for name in names] == [0, 1, 2, 3, 4]
    assert tokenizer.token_to_id("##s") == 7 and tokenizer.id_to_token(7) == "##s"
    tokenizer.vocabulary.append("changed")
    assert tokenizer.vocabulary == VOCABULARY
    with pytest.raises(KeyError, match="does not contain 'absent'"):
        tokenizer.token_to_id("absent")
    with pytest.raises(IndexError, match="Received: -1"):
        tokenizer.id_to_token(-1)


def test_settings_make_the_same_tokenizer():
    given = {
        "lowercase": False,
        "strip_accents": True,
        "split_on_cjk": False,
        "max_word_length": 100,
        "special_tokens_in_text": True,
    }
    tokenizer = BertTokenizer(VOCABULARY, **given)
    assert tokenizer.settings() == given
    assert BertTokenizer(VOCABULARY).settings() == {
        "lowercase": True,
        "strip_accents": None,
        "split_on_cjk": True,
        "max_word_length": 200,
        "special_tokens_in_text": False,
    }
    again = BertTokenizer.from_config({**tokenizer.get_config(), "vocabulary": VOCABULARY})
    assert again.settings() == given and again.name == tokenizer.name
    text = tf.constant(["Hello héllo 中hello [MASK]"])
    assert again(text).to_list() == tokenizer(text).to_list() == [[11, 5, 1, 4]]


def test_reads_a_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(VOCABULARY), encoding="utf-8")
    for given in (path, str(path)):
        assert BertTokenizer(given).vocabulary == VOCABULARY


@pytest.mark.parametrize("lowercase", [True, False])
def test_special_tokens_in_text(lowercase):
    text = ["[MASK]", "hello[SEP]world", "[mask] [CLS][PAD] [UNK]", "[MA\u00adSK] \ufaf0", "[[MASK]]"]
    kept = BertTokenizer(VOCABULARY, lowercase=lowercase, special_tokens_in_text=True)
    split = [13, 15, 14]  # [ mask ]
    shy = split if lowercase else [13, 1, 14]
    assert kept(text).to_list() == [[4], [5, 3, 6], [*split, 2, 0, 1], [*shy, 1], [13, 4, 14]]
    plain = BertTokenizer(VOCABULARY, lowercase=lowercase)
    assert plain(["[MASK]"]).to_list() == [shy]


def test_bad_input(tmp_path, tokenizer):
    with pytest.raises(FileNotFoundError, match="absent.txt"):
        BertTokenizer(tmp_path / "absent.txt")
    with pytest.raises(ValueError, match=r"without \[MASK\]"):
        BertTokenizer(VOCABULARY[:4])
    with pytest.raises(ValueError, match="'hello' is also on line 6"):
        BertTokenizer([*VOCABULARY, "hello"])
    for limit in (0, -1, 2.0, True, None, 10**9):
        with pytest.raises(ValueError, match="`max_word_length` must be an integer from 1 to 1,000,000. Received"):
            BertTokenizer(VOCABULARY, max_word_length=limit)
    with pytest.raises(ValueError, match="expects strings. Received: int32"):
        tokenizer(tf.constant([1, 2]))
    with pytest.raises(ValueError, match="has no vocabulary"):
        BertTokenizer.from_config(tokenizer.get_config())(["hello"])


def functional_model(tokenizer):
    text = keras.Input((), dtype="string", name="text")
    return keras.Model({"text": text}, tokenizer(text))


def test_functional_model(tokenizer):
    symbol = tokenizer(keras.Input((), dtype="string"))
    assert symbol.shape == (None, None) and symbol.dtype == "int32"
    model = functional_model(tokenizer)
    assert model({"text": tf.constant(["hello", "a !"])}).to_list() == [[5], [1, 9]]
    assert model.predict({"text": tf.constant(["hello", "a !"])}, verbose=0).to_list() == [[5], [1, 9]]
    assert model.get_layer(tokenizer.name) is tokenizer and not tokenizer.supports_jit


def test_the_vocabulary_survives_saving(tmp_path):
    settings = {"lowercase": False, "split_on_cjk": False, "max_word_length": 7}
    model = functional_model(BertTokenizer(VOCABULARY, name="words", **settings))
    path = tmp_path / "model.keras"
    model.save(path)
    moved = tmp_path / "elsewhere" / "renamed.keras"
    moved.parent.mkdir()
    path.rename(moved)
    loaded = keras.models.load_model(moved)
    assert loaded.get_layer("words").vocabulary == VOCABULARY
    assert {**loaded.get_layer("words").settings()} == {**BertTokenizer(VOCABULARY, **settings).settings()}
    script = f"""
import keras, kbert.text.tokenizer, tensorflow as tf
model = keras.models.load_model({str(moved)!r})
print(model(dict(text=tf.constant(["Hello hello", "中"]))).to_list(), model.get_layer("words").mask_id)
"""
    assert forked_python(script) == "[[11, 5], [12]] 4"


def test_copies_keep_the_vocabulary(tokenizer):
    assert copy.deepcopy(tokenizer)(["hello"]).to_list() == [[5]]


def test_in_a_dataset(tokenizer):
    texts = ["hello", "world !", "naïve", "中"] * 50
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(7).map(tokenizer, num_parallel_calls=2)
    assert [row for batch in dataset for row in batch.to_list()] == [[5], [6, 9], [10], [12]] * 50
    single = tf.data.Dataset.from_tensor_slices(texts).map(tokenizer)
    assert next(iter(single)).numpy().tolist() == [5]
    assert dataset.element_spec.dtype == tf.int32 and dataset.element_spec.shape.as_list() == [None, None]


def test_made_inside_a_graph(tokenizer):
    made = []

    @tf.function
    def first(strings):
        made.append(BertTokenizer(VOCABULARY))
        return made[0](strings)

    assert first(tf.constant(["hello"])).to_list() == [[5]]
    assert made[0](tf.constant(["world"])).to_list() == [[6]]


def all_ops(graph_def):
    nodes = [*graph_def.node, *(node for function in graph_def.library.function for node in function.node_def)]
    return {node.op for node in nodes}


@pytest.mark.parametrize("split_on_cjk", [True, pytest.param(False, marks=pytest.mark.slow)])  # fewer operations
def test_only_ops_that_serving_links(split_on_cjk):
    tokenizer = BertTokenizer(VOCABULARY, split_on_cjk=split_on_cjk, special_tokens_in_text=True)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def everything(strings):
        ids, starts, ends = tokenizer.tokenize_with_offsets(strings)
        return tokenizer.detokenize(tokenizer(strings)), ids, starts, ends

    ops = all_ops(everything.get_concrete_function().graph.as_graph_def())
    assert "FastWordpieceTokenizeWithOffsets" in ops and "NormalizeUTF8" in ops
    assert ops - set(dir(tf.raw_ops)) == TEXT_OPS
    assert not [op for op in ops for word in TABLE_OPS if word in op]


@pytest.mark.parametrize("language", ["tr_TR.UTF-8", pytest.param("lt_LT.UTF-8", marks=pytest.mark.slow)])
def test_the_environment_s_language_changes_nothing(language):
    # ICU would make a dotless i of I in Turkish, and add dots to accented capitals in Lithuanian.
    vocabulary = [*SPECIAL_TOKENS, *"iįíìĩj", *(f"##{c}" for c in "iįíìĩj\u0307\u0300")]
    script = f"""
import contextlib, locale
import kbert, tensorflow as tf
with contextlib.suppress(locale.Error):  # where it is not installed, ICU reads the environment all the same
    locale.setlocale(locale.LC_ALL, "")
print(tf.strings.lower("I", encoding="utf-8").numpy().decode())  # ICU knows the language
for settings in (dict(), dict(strip_accents=False)):
    print(kbert.BertTokenizer({vocabulary!r}, **settings)(["I IJ", "İ IÍÌĨĮ\\u0300 J\\u0300"]).to_list())
"""
    i, d, piece = 5, 17, 11
    small_i = "ı" if language.startswith("tr") else "i"
    stripped = [[i, i, piece + 5], [i, i, piece, piece, piece, piece, 10]]
    accents = [[i, i, piece + 5], [i, d, i, piece + 2, piece + 3, piece + 4, piece + 1, d + 1, 10, d + 1]]
    assert forked_python(script, LANG=language, LC_ALL=language) == f"{small_i}\n{stripped}\n{accents}"


def test_the_unknown_fraction_tokens_and_its_warning(tokenizer, caplog):
    columns = [["hello world", "xyz hello"], [["naive", "qqq"], ["!", ","]]]
    assert unknown_fraction(tokenizer, columns) == 2 / 8
    assert unknown_fraction(tokenizer, [[""]]) == unknown_fraction(tokenizer, [[]]) == 0
    assert unknown_fraction(tokenizer, [["! " * 500 + "xyz " * 200]]) == 0  # the head of a text
    warn_of_unknown(0.09, "reviews.csv")
    assert not caplog.records
    warn_of_unknown(0.25, "reviews.csv")
    assert "reviews.csv: 25 % of the tokens are [UNK]" in caplog.text and "kbert vocabulary" in caplog.text
