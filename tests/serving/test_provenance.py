"""What the card of an export says on how the model was made, without being told."""

import hashlib
import shutil

import numpy as np
import pytest
from helpers.hf_directory import GOLDEN
from helpers.tiny_bert import tiny_config, tiny_tokenizer
from helpers.tiny_directory import write_tiny_directory
from helpers.tiny_finetuning import DEV, ROWS, SHORT, TASK

import kbert
from kbert.files import read_json, sha256, write_json
from kbert.pipelines.text_columns import TextColumns
from kbert.serving.card import provenance
from kbert.serving.exported_pipeline import trained_options
from kbert.training import ExactResume
from kbert.weights.provenance import trained_columns

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture
def init(tmp_path):
    return write_tiny_directory(tmp_path / "init")


@pytest.fixture
def run(init, tmp_path):
    return kbert.finetune(init, TASK, ROWS, DEV, tmp_path / "reviews", **SHORT)


def test_a_run_and_what_is_stored_of_it_have_the_same_card(run, tmp_path):
    path = run.path
    made_by, metrics = provenance(run.pipeline.model)
    assert made_by["model"] == "reviews" and metrics["dev"] == run.metrics["dev"]
    assert made_by["weights_sha256"] == sha256(path / "model" / "model.safetensors")
    assert made_by["run"] == read_json(path / "model" / "kbert.json")["made_by"]
    for source in (path, str(path / "model")):
        assert provenance(kbert.load_pretrained(source)) == (made_by, metrics)
    exported = kbert.export(str(path), tmp_path / "exported", made_by={"purpose": "a test"})
    card = read_json(exported / "card.json")
    assert card["made_by"] == made_by | {"purpose": "a test"} and card["metrics"] == metrics
    assert trained_options(exported) == {"text": "text", "text_separator": " ", "label": "label"}
    assert str(tmp_path) not in (exported / "card.json").read_text("utf-8")


def test_of_a_run_without_output_its_settings_and_metrics_are_known(init):
    run = kbert.finetune(init, TASK, ROWS, DEV, **SHORT)
    made_by, metrics = provenance(run.pipeline.model)
    assert set(made_by) == {"run"} and made_by["run"]["recipe"] == "kbert.finetune"
    assert made_by["run"]["settings"]["task"]["text"] == TASK.text and metrics == run.metrics
    assert str(init) not in str(made_by)


def test_a_model_that_is_saved_again_keeps_its_run_and_columns(run, init, tmp_path):
    stored = read_json(run.path / "model/kbert.json")["made_by"]
    assert stored["settings"]["task"]["text"] == TASK.text
    model = kbert.load_pretrained(run.path)
    kbert.save_pretrained(model, tmp_path / "half", storage_dtype="bfloat16")
    kbert.save_pretrained(kbert.build_pipeline(tmp_path / "half"), tmp_path / "again")
    assert read_json(tmp_path / "again/kbert.json")["made_by"] == stored
    kbert.save_pretrained(model, tmp_path / "own", made_by={})
    model.set_weights(model.get_weights())
    kbert.save_pretrained(model, tmp_path / "changed")
    for name in ("own", "changed"):
        assert read_json(tmp_path / name / "kbert.json")["made_by"] == {}
    in_memory = kbert.finetune(init, TASK, ROWS, DEV, **SHORT)
    kbert.save_pretrained(in_memory.pipeline, tmp_path / "in_memory")
    for source in (tmp_path / "again", tmp_path / "in_memory"):
        assert trained_columns(kbert.load_pretrained(source)) == {"text": TextColumns((TASK.text,))}


def test_nothing_is_said_of_weights_that_have_changed(run):
    model = run.pipeline.model
    model.compile()
    assert provenance(model)[0]["model"] == "reviews"
    model.set_weights([weight * 2 for weight in model.get_weights()])
    assert provenance(model) == ({}, {})
    for change in ("fit", "load_weights"):
        model = kbert.load_pretrained(run.path)
        assert provenance(model)[0]["model"] == "reviews"
        if change == "fit":
            model.compile()
            model.fit({"token_ids": np.ones((2, 5), "int32")}, np.array([0, 1]), verbose=0)
        else:
            model.save_weights(run.path.parent / "it.weights.h5")
            model.load_weights(run.path.parent / "it.weights.h5")
        assert provenance(model) == ({}, {})
    assert provenance(kbert.BertEncoder(tiny_config())) == ({}, {})


def test_a_run_does_not_count_for_another_task_or_a_new_head(run, tmp_path):
    record = read_json(run.path / "model/kbert.json")["made_by"]
    similarity = kbert.load_pretrained(run.path, task="similarity")
    tagger = kbert.load_pretrained(run.path, task="tagging", num_labels=2)
    other_labels = kbert.load_pretrained(run.path, labels=["a", "b", "c"])
    for number, model in enumerate((similarity, tagger, other_labels)):
        kbert.save_pretrained(model, tmp_path / str(number))
        assert read_json(tmp_path / str(number) / "kbert.json")["made_by"] == {}
        assert set(provenance(model)[0]) == {"model", "weights_sha256"} and provenance(model)[1] == {}
        assert trained_columns(model) == {}
    kbert.save_pretrained(similarity, tmp_path / "given", made_by=record)
    rows = [{"text": "good", "b": "bad", "s": 0.1}, {"text": "a film", "b": "film", "s": 0.9}]
    task = {"text_pair": "b", "label": "s"}
    scores = [kbert.evaluate(each, task, rows) for each in (tmp_path / "given", kbert.build_pipeline(similarity))]
    assert scores[0] == scores[1] and scores[0]["examples"] == 2


def test_an_encoder_trained_inside_another_model_is_not_its_runs(run, tmp_path):
    for change in ("fit", "train_on_batch"):
        encoder = kbert.load_pretrained(run.path, task="encoder")
        assert provenance(encoder)[0]["model"] == "reviews"
        model = kbert.BertClassifier(encoder, num_labels=2)
        model.compile()
        getattr(model, change)({"token_ids": np.ones((2, 5), "int32")}, np.array([0, 1]))
        assert provenance(encoder) == ({}, {})


def test_a_model_that_resumes_is_not_its_runs(run, tmp_path):
    batch = {"token_ids": np.ones((2, 5), "int32")}, np.array([0, 1])
    for step in (0, 1):
        model = kbert.load_pretrained(run.path)
        model.compile()
        resume = ExactResume(tmp_path / "resumed", model, 1)
        assert resume.step == step
        if step == 0:
            assert provenance(model)[0]["model"] == "reviews"
            model.fit(*batch, callbacks=[resume], verbose=0)
    assert provenance(model) == ({}, {})


def test_what_a_model_was_loaded_from_may_be_replaced(tmp_path):
    directory = tmp_path / "run" / "model"
    arguments = dict(tokenizer=tiny_tokenizer(), overwrite=True)
    first = {"settings": {"task": {"task": "regression", "text": "review"}}}
    kbert.save_pretrained(kbert.BertRegressor(tiny_config()), directory, made_by=first, **arguments)
    (tmp_path / "run" / "metrics.json").write_text('{"pearson": 1.0}')
    model = kbert.load_pretrained(directory)
    known = {"model": "run", "weights_sha256": sha256(directory / "model.safetensors")}
    assert provenance(model) == (known | {"run": first}, {"pearson": 1.0})
    assert trained_columns(model) == {"text": TextColumns(("review",))}
    kbert.save_pretrained(kbert.BertRegressor(tiny_config()), directory, made_by={"who": "another"}, **arguments)
    shutil.rmtree(directory)
    assert provenance(model) == (known | {"run": first}, {"pearson": 1.0})
    assert trained_columns(model) == {"text": TextColumns(("review",))}


def test_metrics_beside_another_directory_are_not_its_own(tmp_path):
    kbert.save_pretrained(kbert.BertEncoder(tiny_config()), tmp_path / "encoder", tokenizer=tiny_tokenizer())
    (tmp_path / "metrics.json").write_text('{"accuracy": 1.0}')
    made_by, metrics = provenance(kbert.load_pretrained(tmp_path / "encoder"))
    assert made_by["model"] == "encoder" and metrics == {}
    assert kbert.build_pipeline(tmp_path / "encoder").task == "encoder"


def test_a_run_in_words_of_your_own_says_nothing_of_columns(tmp_path):
    """Only a card is read."""
    for number, run in enumerate(("nightly-17", ["a", "b"], 17, {"settings": "default"}, None)):
        card = tmp_path / str(number) / "1" / "card.json"
        card.parent.mkdir(parents=True)
        (card.parent / "saved_model.pb").touch()
        write_json(card, {"made_by": {"run": run}})
        assert trained_options(card.parent) == {}


def test_weights_of_other_formats_have_a_hash_too():
    directory = GOLDEN / "hf_safetensors"
    made_by, _ = provenance(kbert.load_pretrained(directory))
    assert made_by == {"model": "hf_safetensors", "weights_sha256": sha256(directory / "model.safetensors")}
    for source, pattern in (("hf_sharded", "*.safetensors"), ("google_pretraining/bert_model.ckpt", "*.ckpt.*")):
        made_by, _ = provenance(kbert.load_pretrained(GOLDEN / source))
        files = sorted((GOLDEN / source.split("/")[0]).glob(pattern))
        lines = "".join(f"{sha256(file)}  {file.name}\n" for file in files)
        assert len(files) > 1 and made_by["weights_sha256"] == hashlib.sha256(lines.encode()).hexdigest()
