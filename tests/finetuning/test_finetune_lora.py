"""kbert.finetune(lora_rank=…): what is trained, stored and resumed."""

import re

import numpy as np
import pytest
from helpers.at_step import Killed, killed_at
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json
from helpers.tiny_directory import sentences
from helpers.tiny_finetuning import DEV, NO_DEV, QUICK, ROWS, TASK, same

import kbert
from kbert.models.lora import dense_layers, lora_layers

LORA = QUICK | {"lora_rank": 2, "learning_rate": 0.03, "dropout": 0.0, "steps": 4}
LORA |= {"evaluate_every": 2, "checkpoint_every": 2}
TEXTS = [text for text, _ in sentences(5, start=40)]


@pytest.fixture(autouse=True, scope="module")
def op_by_op():
    with run_eagerly():
        yield


@pytest.fixture(scope="module")
def run(init, tmp_path_factory):
    return kbert.finetune(init, TASK, ROWS, DEV, tmp_path_factory.mktemp("runs") / "run", **LORA)


def probabilities(pipeline):
    return pipeline.predict(TEXTS)["probabilities"]


def test_the_matrices_and_the_head_are_trained(init, run):
    model, base = run.pipeline.model, kbert.load_pretrained(init, "classification", labels=["bad", "good"])
    blocks = base.config.num_layers
    assert [rank for rank, _ in lora_layers(model).values()] == [2] * 2 * blocks
    assert len(model.trainable_variables) == 2 * 2 * blocks + 2
    assert all(np.any(variable.numpy() != 0) for variable in model.trainable_variables)
    learnt = {id(variable) for variable in model.trainable_variables}
    frozen = [variable.numpy() for variable in model.encoder.weights if id(variable) not in learnt]
    assert same(frozen, base.encoder.get_weights())
    assert read_json(run.path / "settings.json")["lora_rank"] == 2


def test_what_is_stored(init, run, tmp_path):
    """A model in which LoRA is merged, and the adapter, for the model that the run started from."""
    stored = kbert.load_pretrained(run.path)
    assert not lora_layers(stored)
    np.testing.assert_allclose(probabilities(kbert.build_pipeline(stored)), probabilities(run.pipeline), atol=1e-5)
    kbert.export(run.pipeline, tmp_path / "served")
    base = kbert.load_pretrained(init, "classification", labels=["bad", "good"])
    kbert.weights.load_adapter(base, run.path / "adapter")
    assert same(base.get_weights(), run.pipeline.model.get_weights())


def test_a_killed_run_is_resumed_to_the_same_model(init, run, tmp_path):
    with pytest.raises(Killed):
        kbert.finetune(init, TASK, ROWS, DEV, tmp_path / "run", **LORA, callbacks=[killed_at(3)])
    part = kbert.load_pretrained(tmp_path / "run")  # the checkpoint of step 2, with LoRA merged
    assert not lora_layers(part) and part.pretrained.settings.task.labels == ("bad", "good")
    description = tmp_path / "run/checkpoints/description"
    assert read_json(description / "config.json")["kbert"]["lora_layers"]
    names = ["config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]
    assert sorted(file.name for file in description.iterdir()) == names
    with pytest.raises(FileExistsError, match="lora_rank: 2 there, None now"):
        kbert.finetune(init, TASK, ROWS, DEV, tmp_path / "run", **LORA | {"lora_rank": None})
    resumed = kbert.finetune(init, TASK, ROWS, DEV, tmp_path / "run", **LORA)
    assert same(resumed.pipeline.model.get_weights(), run.pipeline.model.get_weights())
    assert same(*(kbert.load_pretrained(path).get_weights() for path in (resumed.path, run.path)))
    assert resumed.metrics["evaluations"] == run.metrics["evaluations"]


def test_a_model_in_memory_with_lora_gets_its_adapter(init, tmp_path, caplog):
    model = kbert.load_pretrained(init, "classification", labels=["bad", "good"])
    model.enable_lora(2)
    run = kbert.finetune(model, TASK, ROWS, output=tmp_path, **NO_DEV | {"steps": 2})
    assert re.search(r"training [\d,]+ of [\d,]+ parameters \(LoRA and the head\)", caplog.text)
    base = kbert.load_pretrained(init, "classification", labels=["bad", "good"])
    kbert.weights.load_adapter(base, run.path / "adapter")
    assert same(base.get_weights(), run.pipeline.model.get_weights())


def test_lora_of_several_ranks_is_stored_merged_without_an_adapter(init, tmp_path, caplog):
    model = kbert.load_pretrained(init, "classification", labels=["bad", "good"])
    model.enable_lora(2, layers="query")
    next(layer for layer in dense_layers(model) if layer.path.endswith("/value")).enable_lora(3)
    run = kbert.finetune(model, TASK, ROWS, output=tmp_path, **NO_DEV | {"steps": 1})
    assert "no adapter was written: save_adapter: the LoRA layers must have one rank" in caplog.text
    assert not (run.path / "adapter").exists() and not lora_layers(kbert.load_pretrained(run.path))
