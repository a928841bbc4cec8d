"""LoRA adapters in PEFT's files: small, exact, with the outputs of PEFT, and what is refused."""

import json
import re

import numpy as np
import pytest
from helpers.compare import assert_arrays_equal
from helpers.hf_directory import edit
from helpers.other_libraries import AUTO
from helpers.parity import measure_parity
from helpers.slow_but import slow_but
from helpers.stored_models import MODELS, assert_same_weights, save
from helpers.tiny_bert import randomise, tiny_config
from safetensors.numpy import load_file, save_file

import kbert
from kbert.models.lora import TARGETS, lora_layers
from kbert.weights import load_adapter, save_adapter

LABELED = ("classification", "regression", "span", "tagging", "multiple_choice")
HELD = ("encoder", "masked_lm", "pretraining", "pretraining, untied", "next_sentence", *LABELED)


def adapted(base, rank=2, alpha=3.0, layers=TARGETS, seed=1):
    """A copy of a model with LoRA and a head of other values, as training leaves it."""
    model = copy(base)
    model.enable_lora(rank, alpha, layers)
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.3, variable.shape))
    return model


def copy(model):
    other = type(model).from_config(model.get_config())
    other.set_weights(model.get_weights())
    return other


@pytest.fixture(scope="module")
def base():
    return randomise(MODELS["classification"](tiny_config()))


@pytest.fixture(scope="module")
def model(base):
    return adapted(base)


@pytest.fixture
def directory(model, tmp_path):
    save_adapter(model, tmp_path / "adapter")
    return tmp_path / "adapter"


def test_it_is_small_and_gives_the_outputs(base, model, directory):
    assert sum(file.stat().st_size for file in directory.iterdir()) < 25_000
    other = copy(base)
    other.provenance = other.encoder.provenance = "of the base"
    load_adapter(other, directory)
    assert_same_weights(other, model)
    assert other.provenance is other.encoder.provenance is None
    assert lora_layers(other) == lora_layers(model)
    assert [v.path for v in other.trainable_variables] == [v.path for v in model.trainable_variables]
    load_adapter(changed := adapted(base, seed=2), directory)  # LoRA of the same layers is overwritten
    assert_same_weights(changed, model)
    save_adapter(other, directory)  # replaces it


def test_the_files_are_those_of_peft(directory):
    config = json.loads((directory / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["task_type"]) == (2, 3.0, "SEQ_CLS")
    assert config["modules_to_save"] == ["classifier"]
    tensors = load_file(directory / "adapter_model.safetensors")
    prefix = "base_model.model."
    assert tensors[f"{prefix}classifier.weight"].shape == (3, 12)
    assert tensors[f"{prefix}bert.encoder.layer.1.intermediate.dense.lora_A.weight"].shape == (2, 12)
    assert tensors[f"{prefix}bert.encoder.layer.1.intermediate.dense.lora_B.weight"].shape == (20, 2)
    assert len(tensors) == 2 * 6 * 2 + 2


def test_a_model_in_bfloat16_is_exact(tmp_path):
    base = kbert.BertClassifier(tiny_config(num_layers=1), num_labels=3, dtype="bfloat16")
    model = adapted(base)
    save_adapter(model, tmp_path / "it")
    load_adapter(base, tmp_path / "it")
    values = [[np.asarray(v.value).astype("float32") for v in each.trainable_variables] for each in (base, model)]
    assert_arrays_equal(*values)


def test_what_is_refused(base, model, directory, tmp_path):
    def refused(other, message, error=ValueError):
        before, lora = other.get_weights(), lora_layers(other)
        with pytest.raises(error, match=message):
            load_adapter(other, directory)
        assert_arrays_equal(before, other.get_weights())
        assert lora_layers(other) == lora

    changed = copy(base)
    changed.encoder.embeddings.token_embedding.embeddings.assign_add(np.full((25, 12), 1e-6, "float32"))
    refused(changed, "was trained on other base weights")
    encoder = kbert.BertEncoder(tiny_config(), outputs=("sequence_output", "pooled_output"))
    encoder.set_weights(base.encoder.get_weights())
    refused(kbert.BertTagger(encoder, 3), "another task than tagging. Received: task_type SEQ_CLS")
    refused(kbert.BertClassifier(tiny_config(), 4), r"classifier.bias: expected \(4,\), received \(3,\)")
    refused(
        kbert.BertClassifier(tiny_config(num_layers=1), 3),
        "layer.1.attention.output.dense.lora_A.weight: exp",
    )
    for other in (adapted(base, rank=1), adapted(base, alpha=1.0)):
        refused(other, "the model's LoRA has other layers or another rank or alpha")
    refused(adapted(base, layers=("value",)), "the model's LoRA has other layers")
    with pytest.raises(ValueError, match="must have one rank and alpha. Received: no LoRA"):
        save_adapter(base, tmp_path / "none")
    unequal = adapted(base, layers=("query",))
    unequal.encoder.blocks[0].attention.value.enable_lora(1)
    with pytest.raises(ValueError, match=r"must have one rank and alpha. Received: \[\(1, 1.*\), \(2, 3.0\)\]"):
        save_adapter(unequal, tmp_path / "none")
    others = {"use_dora": True, "use_rslora": True, "bias": "all", "rank_pattern": {"query": 4}}
    others |= {"peft_type": "IA3", "alora_invocation_tokens": [6]}
    for name, value in others.items():
        sound = json.loads((directory / "adapter_config.json").read_text())
        edit(directory / "adapter_config.json", **{name: value})
        refused(copy(base), f"adapter_config.json: kbert does not support `{name}={re.escape(repr(value))}`")
        edit(directory / "adapter_config.json", **{name: sound.get(name)})
    for value in ("pissa", "pissa_niter_4", "olora", "corda", "loftq", "lora_ga"):
        edit(directory / "adapter_config.json", init_lora_weights=value)
        refused(copy(base), f"kbert does not support `init_lora_weights='{value}'`")
    edit(directory / "adapter_config.json", init_lora_weights=True)
    for value in (0, "2", True, None):
        edit(directory / "adapter_config.json", r=value)
        refused(copy(base), "`r` and `lora_alpha` must be positive")
    edit(directory / "adapter_config.json", r=2)
    path = directory / "adapter_model.safetensors"
    content, tensors = path.read_bytes(), load_file(path)
    for name, tensor in tensors.items():
        if "layer.1.output.dense.lora" in name or ".lora_" not in name:
            save_file(tensors | {name: np.full_like(tensor, np.nan)}, path)
            refused(copy(base), f"adapter_model.safetensors: the tensor '{name}' holds values that are not finite")
    for damaged in (b"", b"no tensors", content[:-30], content[: len(content) // 2]):
        path.write_bytes(damaged)
        refused(copy(base), "adapter_model.safetensors")
    save_file({}, path)
    edit(directory / "adapter_config.json", modules_to_save=None)
    refused(copy(base), "has no LoRA matrices of this model's layers")
    path.unlink()
    refused(copy(base), "adapter_model.safetensors", FileNotFoundError)


def test_other_files_are_not_replaced(model, tmp_path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(FileExistsError, match="notes.txt"):
        save_adapter(model, tmp_path)


@pytest.mark.parity
@pytest.mark.parametrize("name", slow_but(("classification", "masked_lm", "encoder"), HELD))
def test_peft_computes_the_same(name, tmp_path):
    pytest.importorskip("peft")
    base = randomise(MODELS[name](tiny_config(activation="gelu_erf")), scale=0.3)
    save(base, tmp_path / "base", "huggingface")
    model = adapted(base)
    save_adapter(model, tmp_path / "adapter")
    assert measure_parity(model, tmp_path / "base", adapter=tmp_path / "adapter").worst < 1e-5
    assert measure_parity(model, tmp_path / "base").worst > 0.01  # without it, other numbers


@pytest.mark.parity
def test_what_peft_trains_is_loaded(tmp_path):
    """A round trip: kbert's adapter, a step of training in PEFT, its save_pretrained, kbert."""
    peft, torch, transformers = map(pytest.importorskip, ("peft", "torch", "transformers"))
    base = randomise(MODELS["classification"](tiny_config(activation="gelu_erf")), scale=0.3)
    save(base, tmp_path / "base", "huggingface")
    save_adapter(adapted(base), tmp_path / "adapter")
    theirs = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "base")
    theirs = peft.PeftModel.from_pretrained(theirs, tmp_path / "adapter", is_trainable=True)
    batch = {"input_ids": torch.tensor([[2, 6, 7, 3]]), "labels": torch.tensor([1])}
    optimizer = torch.optim.Adam([p for p in theirs.parameters() if p.requires_grad], 0.01)
    theirs.train()
    theirs(**batch).loss.backward()
    optimizer.step()
    theirs.save_pretrained(tmp_path / "trained")
    model = copy(base)
    load_adapter(model, tmp_path / "trained")
    assert measure_parity(model, tmp_path / "base", adapter=tmp_path / "trained").worst < 1e-5
    assert measure_parity(model, tmp_path / "base", adapter=tmp_path / "adapter").worst > 1e-3


@pytest.mark.parity
@pytest.mark.parametrize(
    "name, task_type, init",
    [
        ("encoder", "FEATURE_EXTRACTION", "gaussian"),
        ("masked_lm", None, "orthogonal"),
        ("classification", "FEATURE_EXTRACTION", True),
    ],
)
def test_an_adapter_without_a_head_leaves_the_head_as_it_is(name, task_type, init, tmp_path):
    """PEFT's defaults: without `modules_to_save`, it stores LoRA's matrices only."""
    peft, torch, transformers = map(pytest.importorskip, ("peft", "torch", "transformers"))
    base = randomise(MODELS[name](tiny_config(activation="gelu_erf")), scale=0.3)
    save(base, tmp_path / "base", "huggingface")
    theirs = getattr(transformers, AUTO[name]).from_pretrained(tmp_path / "base")
    config = {"r": 2, "target_modules": ["query", "value"], "init_lora_weights": init}
    theirs = peft.get_peft_model(theirs, peft.LoraConfig(task_type=task_type, **config))
    for path, parameter in theirs.named_parameters():
        if "lora_B" in path:
            torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path / "adapter")
    load_adapter(base, tmp_path / "adapter")
    assert measure_parity(base, tmp_path / "base", adapter=tmp_path / "adapter").worst < 1e-5
    assert measure_parity(base, tmp_path / "base").worst > 0.01


@pytest.mark.parity
def test_a_table_that_peft_trained_is_refused_by_a_tied_head(tmp_path):
    base = randomise(MODELS["masked_lm"](tiny_config()))
    save_adapter(adapted(base), tmp_path / "it")
    load_adapter(copy(base), tmp_path / "it")
    file = tmp_path / "it/adapter_model.safetensors"
    tensors = load_file(file)
    tensors["base_model.model.cls.predictions.decoder.weight"] += 0.1
    save_file(tensors, file)
    with pytest.raises(ValueError, match="decoder.weight differs from the token embeddings.*tied"):
        load_adapter(copy(base), tmp_path / "it")
