"""A toy pre-training packed as one of kbert's own models: what is there, and that its card says what the files say."""

import json

import pytest
from helpers.data_once import data_once
from helpers.docs_scripts import import_docs_script
from helpers.pretraining_fixtures import corpus, records, tokenizer  # noqa: F401
from helpers.run_eagerly import run_eagerly

import kbert
from kbert.files import read_json, write_json
from kbert.inspection.playground.models import Model
from kbert.serving.exported_pipeline import ExportedPipeline

pytestmark = pytest.mark.slow  # of a script that runs once for each model; what it wrote: test_shipped_models.py


@pytest.fixture(scope="module")
def make():
    return import_docs_script("make_shipped_model")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("shipped")


@pytest.fixture(scope="module")
def shipped(make, home, records, tokenizer):  # noqa: F811
    sizes = {"num_layers": 1, "hidden_dim": 12, "num_heads": 3, "intermediate_dim": 20, "max_sequence_length": 32}
    config = kbert.BertConfig(vocabulary_size=tokenizer.vocabulary_size, **sizes)
    options = {"steps": 2, "batch_size": 4, "sequence_length": 16, "evaluation_batches": 1, "packed": False}
    options |= {"log_every": 1, "checkpoint_every": 1, "keep_every": 1}
    with run_eagerly(), pytest.MonkeyPatch.context() as patch:
        data_once(patch.setattr)
        kbert.pretrain(records, init=kbert.BertPretrainer(config), output=home / "runs" / "toy", **options)
        kbert.pretrain(records, init=home / "runs" / "toy", output=home / "runs" / "more", **options)
    (home / "records").mkdir()
    write_json(home / "records" / "metrics.json", {"documents": 3, "sentences": 1234, "tokens": 5_600_000})
    (home / "saved_models" / "kbert-toy").mkdir(parents=True)
    (home / "saved_models" / "kbert-toy" / "old").write_text("of an earlier time")
    runs = [home / "runs" / "toy", f"{home / 'runs' / 'more'}@1"]
    return make.ship(runs, home / "records", "kbert-toy", directory=home / "saved_models")


def test_the_folder(make, shipped):
    assert sorted(path.name for path in shipped.iterdir()) == ["1", "README.md", "curves.svg", "history.jsonl", "model"]
    assert [path.name for path in shipped.parent.iterdir()] == ["kbert-toy"]
    assert read_json(shipped / "model" / "config.json")["kbert"]["storage_dtype"] == "float16"
    assert 0.01 < make.megabytes(shipped) < 5
    card = read_json(shipped / "1" / "card.json")
    assert card["name"] == "kbert-toy" and card["signatures"].keys() == {
        "serving_default",
        "fill_mask",
        "next_sentence",
    }
    assert card["made_by"]["run"]["recipe"] == "kbert.pretrain" and card["made_by"]["run"]["step"] == 1


def test_it_is_loaded_by_its_folder_and_answers_as_exported(shipped):
    pipeline = kbert.build_pipeline(kbert.load_pretrained(shipped))
    texts = ["the [MASK] .", "a [MASK] [MASK]"]
    ours, exported = pipeline.predict(texts, verbose=0), ExportedPipeline(shipped).predict_on_batch({"text": texts})
    assert ours["count"].tolist() == exported["count"].tolist() == [1, 2]
    assert exported["probabilities"] == pytest.approx(ours["probabilities"], abs=1e-3)  # float16 and float32


def test_the_playground_takes_the_model_not_the_export(shipped):
    assert not Model(shipped).is_saved_model and Model(shipped / "1").is_saved_model


def test_the_card(home, shipped):
    card = (shipped / "README.md").read_text(encoding="utf-8")
    history = [json.loads(line) for line in (shipped / "history.jsonl").read_text().splitlines()]
    assert [(line["run"], line["step"]) for line in history][-1] == ("more", 1)
    assert {line["run"] for line in history} == {"toy", "more"}
    assert " 3 documents, 1,234 sentences, 5.6 million tokens" in " ".join(card.split())
    assert "**Training**: 3 steps" in card  # 2 of the one, 1 of the other
    last = [line for line in history if "val_mlm_cross_entropy" in line][-1]
    assert f"masked-LM loss (nats) {last['val_mlm_cross_entropy']:.2f}" in card
    assert "<!-- finetuning-kbert-toy.json -->\n<!-- end -->" in card  # for make_results.py
    assert "learning rate" in card and "{" not in card and str(home) not in card
    for name in ("model/kbert.json", "1/card.json", "history.jsonl"):
        assert str(home) not in (shipped / name).read_text(encoding="utf-8")
