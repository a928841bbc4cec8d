"""What kbert adds to a Hugging Face directory: the key `kbert`, kbert.json, and models that transformers refuses."""

import keras
import numpy as np
import pytest
from helpers.hf_directory import edit, rewrite
from helpers.model_settings import settings_of
from helpers.slow_but import slow_but
from helpers.stored_models import MODELS, assert_same_model, assert_same_weights, load, make_model, save, weights
from helpers.tiny_bert import VOCABULARY, randomise, tiny_config, tiny_tokenizer
from safetensors.numpy import load_file, save_file

import kbert
from kbert.files import read_json
from kbert.weights.files.safetensors_file import SafetensorsFile
from kbert.weights.source import open_checkpoint


def quantized():
    model = randomise(kbert.BertClassifier(tiny_config(), num_labels=3, dropout=0.2))
    model.quantize("int8")
    return model


def last_token():
    return randomise(kbert.BertClassifier(tiny_config(causal=True, pooled_token="last"), num_labels=3, dropout=0.2))


OWN = {
    "int8": quantized,
    "the last token": last_token,
    "a head of its own": lambda: make_model("masked_lm as KerasHub's"),
}


@pytest.mark.parametrize("name", OWN)
def test_what_transformers_would_compute_differently_has_another_model_type(name, tmp_path):
    model = OWN[name]()
    save(model, tmp_path / "it", "huggingface")
    config = read_json(tmp_path / "it/config.json")
    assert config["model_type"] == "kbert" and config["architectures"] == [type(model).__name__]
    tensors = SafetensorsFile(tmp_path / "it/model.safetensors").tensors
    assert {n: t.shape for n, t in tensors.items()} == {v.path: tuple(v.shape) for v in model.weights}
    loaded = load(tmp_path / "it")
    if name != "int8":
        assert_same_model(loaded, model)
        return
    for one, other in zip(loaded.weights, model.weights, strict=True):
        assert (one.path, one.dtype) == (other.path, other.dtype)
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other))
    assert {tensor.dtype for tensor in tensors.values()} == {"int8", "float32"}
    ids = np.ones((2, 5), "int32")
    assert np.array_equal(loaded({"token_ids": ids})["logits"], model({"token_ids": ids})["logits"])


def test_a_quantized_model_whose_tensors_are_not_its_config(tmp_path):
    save(quantized(), tmp_path / "it", "huggingface")
    (tmp_path / "it/kbert.json").unlink()
    kernel, scale = (f"encoder_block_0/attention/query/{name}" for name in ("kernel", "kernel_scale"))
    tensors = load_file(tmp_path / "it/model.safetensors")
    damage = (scale, None), (scale, np.ones(3, "float32")), (kernel, np.ones_like(tensors[kernel], "float32"))
    for name, values in damage:
        others = {n: v for n, v in tensors.items() if n != name} | ({} if values is None else {name: values})
        save_file(others, tmp_path / "it/model.safetensors")
        with pytest.raises(ValueError, match=rf"lacks variables of the encoder, or .*: \['{name}'\]"):
            load(tmp_path / "it")


@pytest.mark.parametrize("position_embedding", ["learned", "sinusoidal"])
@pytest.mark.parametrize("segments", [1, 2])
def test_positions_and_segments(position_embedding, segments, tmp_path):
    """Sines are written as a table, which transformers needs; of one segment its tokenizer says nothing."""
    config = tiny_config(hidden_dim=18, position_embedding=position_embedding, num_segments=segments)
    model = randomise(kbert.BertEncoder(config))
    save(model, tmp_path / "it", "huggingface")
    table = SafetensorsFile(tmp_path / "it/model.safetensors").read("bert.embeddings.position_embeddings.weight")
    assert table.shape == (config.max_sequence_length, 18)
    loaded = load(tmp_path / "it")
    assert loaded.config == config and not loaded.pretrained.report.unused
    assert_same_weights(loaded, model)
    names = read_json(tmp_path / "it/tokenizer_config.json")["model_input_names"]
    assert names == ["input_ids", *(["token_type_ids"] if segments == 2 else []), "attention_mask"]


def test_a_table_of_sines_that_transformers_trained_is_learned(tmp_path):
    model = randomise(kbert.BertEncoder(tiny_config(hidden_dim=18, position_embedding="sinusoidal")))
    save(model, tmp_path / "it", "huggingface")
    as_others_save_it(tmp_path / "it")
    name = "bert.embeddings.position_embeddings.weight"
    table = SafetensorsFile(tmp_path / "it/model.safetensors").read(name) + 1e-4
    rewrite(tmp_path / "it", drop=[name], add={name: table})
    loaded = load(tmp_path / "it")
    assert loaded.config.position_embedding == "learned" and "learned" in loaded.pretrained.report.remarks[-1]
    np.testing.assert_array_equal(weights(loaded)["embeddings/position_embedding/embeddings"], table)
    edit(tmp_path / "it/config.json", max_position_embeddings=10**9)
    with pytest.raises(ValueError, match="`max_position_embeddings` is 1000000000, but .*model.safetensors has 19"):
        open_checkpoint(tmp_path / "it")


def test_an_encoder_for_packed_rows(tmp_path):
    model = make_model("pretraining").with_parts(4)
    kbert.save_pretrained(model, tmp_path / "it", tokenizer=tiny_tokenizer())
    assert load(tmp_path / "it").encoder.num_parts == 4


def test_the_tokenizer_has_the_length_of_the_model(tmp_path):
    save(make_model("classification"), tmp_path / "it", "huggingface")
    config = read_json(tmp_path / "it/tokenizer_config.json")
    assert (config["model_max_length"], config["tokenizer_class"]) == (17, "PreTrainedTokenizerFast")


@pytest.mark.parametrize(
    "stated, length",
    [(8, 8), (19, 19), (20, 17), (int(1e30), 17), (None, 17)],
    ids="shorter longer table huge null".split(),
)
def test_a_length_that_another_library_changed(stated, length, tmp_path, caplog):
    """The model's position table has 19 rows. A tokenizer beyond it has no limit."""
    save(make_model("classification"), tmp_path / "it", "huggingface")
    edit(tmp_path / "it/tokenizer_config.json", model_max_length=stated)
    loaded = kbert.load_pretrained(tmp_path / "it").pretrained
    assert loaded.settings.sequence_length == length
    said = f"`sequence_length` is 17, but the tokenizer's files say {length}, which is used"
    remarks = [] if length == 17 else [said]
    assert list(loaded.report.remarks) == remarks
    assert [message for message in caplog.messages if "sequence_length" in message] == [
        f"{tmp_path / 'it/config.json'}: {remark}" for remark in remarks
    ]
    assert kbert.load_pretrained(tmp_path / "it", task="regression").pretrained.settings.sequence_length == length


# kbert.json.


def test_without_kbert_json_it_is_a_directory_like_others(tmp_path):
    save(make_model("classification"), tmp_path / "it", "huggingface", made_by={"seed": 3})
    (tmp_path / "it/vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY[::-1]))
    (tmp_path / "it/tokenizer.json").unlink()
    with pytest.raises(ValueError, match="vocab.txt has another SHA-256 than kbert.json.*delete kbert.json"):
        open_checkpoint(tmp_path / "it")
    (tmp_path / "it/kbert.json").unlink()
    assert load(tmp_path / "it").pretrained.tokenizer.vocabulary == VOCABULARY[::-1]


def test_every_file_has_a_hash(tmp_path):
    save(make_model("similarity"), tmp_path / "it", "huggingface")
    files = {str(file.relative_to(tmp_path / "it")) for file in (tmp_path / "it").rglob("*") if file.is_file()}
    assert set(read_json(tmp_path / "it/kbert.json")["sha256"]) == files - {"kbert.json"}


# After another program has changed it.


def as_others_save_it(path, **changes):
    """The directory as transformers saves it again: without what is only kbert's, in its own order."""
    for name in ("kbert.json", "vocab.txt", "README.md"):
        (path / name).unlink()
    edit(path / "config.json", transformers_version="5.24.0", **changes)
    return path


@pytest.mark.parametrize("name", slow_but(("classification", "tagging", "similarity"), MODELS))
def test_nothing_is_lost(name, tmp_path):
    model = make_model(name)
    save(model, tmp_path / "it", "huggingface")
    before = load(tmp_path / "it")
    after = load(as_others_save_it(tmp_path / "it"))
    assert after.pretrained.settings == before.pretrained.settings
    assert_same_model(after, model)


def test_another_head_since(tmp_path):
    """transformers keeps the key of the pre-trained model in the config of the classifier."""
    save(make_model("pretraining"), tmp_path / "it", "huggingface")
    as_others_save_it(tmp_path / "it", architectures=["BertForSequenceClassification"], id2label={"0": "a", "1": "b"})
    names = SafetensorsFile(tmp_path / "it/model.safetensors").tensors
    head = {"classifier.weight": np.ones((2, 12), "float32"), "classifier.bias": np.ones(2, "float32")}
    rewrite(tmp_path / "it", drop=[name for name in names if name.startswith("cls.")], add=head)
    model = load(tmp_path / "it")
    assert (model.task, model.pretrained.settings.task.labels) == ("classification", ("a", "b"))
    assert model.pretrained.settings.sequence_length == 17 and not model.pretrained.report.newly_initialised


def test_a_classifier_of_one_label_is_no_regressor(tmp_path):
    model = kbert.BertClassifier(tiny_config(num_layers=1), num_labels=1)
    kbert.save_pretrained(model, tmp_path / "it", tokenizer=tiny_tokenizer())
    assert load(tmp_path / "it").task == "classification"


def test_a_pooler_that_transformers_added_stays_out(tmp_path):
    save(make_model("encoder without pooler"), tmp_path / "it", "huggingface")
    as_others_save_it(tmp_path / "it")
    pooler = {
        "bert.pooler.dense.weight": np.ones((12, 12), "float32"),
        "bert.pooler.dense.bias": np.ones(12, "float32"),
    }
    rewrite(tmp_path / "it", add=pooler)
    model = load(tmp_path / "it")
    assert model.pooler is None and {row.source for row in model.pretrained.report.unused} == set(pooler)


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"classifier_dropout": None}, {"dropout": 0.1}),
        ({"classifier_dropout": 0.4}, {"dropout": 0.4}),
        ({"problem_type": "multi_label_classification"}, {"multi_label": True}),
    ],
)
def test_fields_of_transformers_come_before_kberts(change, expected, tmp_path):
    save(make_model("classification"), tmp_path / "it", "huggingface")
    edit(tmp_path / "it/config.json", **change)
    model = load(tmp_path / "it")
    assert {name: getattr(model, name) for name in expected} == expected


def test_another_pooling_of_sentence_transformers(tmp_path):
    save(make_model("similarity"), tmp_path / "it", "huggingface")
    assert load(tmp_path / "it").pooling == "cls"
    edit(tmp_path / "it/1_Pooling/config.json", pooling_mode_cls_token=False, pooling_mode_mean_tokens=True)
    assert load(tmp_path / "it").pooling == "mean"


def test_settings_of_texts_come_back(tmp_path):
    model = randomise(kbert.BertClassifier(tiny_config(), num_labels=2, multi_label=True))
    settings = settings_of("classification", 11, pair=True, labels=["a", "b"], thresholds=[0.2, 0.9], doc_stride=64)
    tokenizer = tiny_tokenizer(max_word_length=77, special_tokens_in_text=["[MASK]"])
    kbert.save_pretrained(model, tmp_path / "it", tokenizer=tokenizer, settings=settings)
    loaded = load(as_others_save_it(tmp_path / "it")).pretrained
    assert loaded.settings.task == settings.task and loaded.settings.sequence_length == 11
    assert loaded.tokenizer.settings() == tokenizer.settings()
