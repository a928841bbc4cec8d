"""Two real models, as downloaded: the same hidden states, cloze answers and similarities as elsewhere.

Their directory is $KBERT_WEIGHTS, or ../shared/weights beside the project; where that holds but the script that fetches
them, it is run.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from golden.hf_real_make import CLOZES, LOGIT_STEP, SENTENCES, STATE_STEP
from helpers.hf_directory import GOLDEN
from helpers.parity import measure_parity
from helpers.paths import ROOT
from helpers.run_recipe import run_kbert
from helpers.stored_models import assert_same_weights, load

import kbert

MODELS = ("all-MiniLM-L6-v2", "bert-tiny-mlm")
SHARED = ROOT.parent / "shared/weights"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    for place in (os.environ.get("KBERT_WEIGHTS"), SHARED):
        if place and all((pathlib.Path(place) / name / "config.json").is_file() for name in MODELS):
            return pathlib.Path(place)
    if not (SHARED / "get_weights.py").is_file():
        pytest.skip("no $KBERT_WEIGHTS and no ../shared/weights: this test needs the real models")
    target = tmp_path_factory.mktemp("weights")
    fetched = subprocess.run([sys.executable, SHARED / "get_weights.py", target], capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f"../shared/weights/get_weights.py could not fetch them: {fetched.stderr[-200:]}")
    return target


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "hf_real.npz") as values:
        return dict(values)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.slow  # of tiny models: formats/test_huggingface.py; of a real one: test_masked_lm_logits
def test_hidden_states_of_real_sentences(weights, golden):
    model = load(weights / "all-MiniLM-L6-v2", outputs=("hidden_states", "sequence_output", "pooled_output"))
    length = golden["token_ids"].shape[1]
    pipeline = kbert.build_pipeline(model, sequence_length=length)
    batch = pipeline.preprocessor({"text": SENTENCES})
    np.testing.assert_array_equal(batch["token_ids"], golden["token_ids"])
    np.testing.assert_array_equal(batch["padding_mask"], golden["padding_mask"])
    outputs = model(batch, training=False)
    real = golden["padding_mask"]
    assert real.sum() < real.size
    for i, state in enumerate(outputs["hidden_states"]):
        wanted = golden["hidden_states"][i]
        np.testing.assert_allclose(state.numpy()[..., ::STATE_STEP][real], wanted[real], rtol=0, atol=2e-5)
    np.testing.assert_allclose(outputs["pooled_output"], golden["pooled_output"], rtol=0, atol=2e-5)
    embedding = pipeline.predict(SENTENCES, verbose=0)["embedding"]
    np.testing.assert_allclose(embedding, golden["embedding"], rtol=0, atol=2e-6)


def test_masked_lm_logits(weights, golden):
    model = load(weights / "bert-tiny-mlm")
    assert model.task == "masked_lm" and model.encoder.pooler is None
    sources = {row.source.rsplit(".", 1)[-1] for row in model.pretrained.report.rows}
    assert {"gamma", "beta"} <= sources  # the old names
    batch = kbert.build_pipeline(model).preprocessor({"text": CLOZES})
    count = batch.pop("count").numpy()
    logits = model(batch, training=False)["mlm_logits"].numpy()
    found = np.concatenate([row[:n] for row, n in zip(logits, count, strict=True)])[:, ::LOGIT_STEP]
    np.testing.assert_allclose(found, golden["mlm_logits"], rtol=0, atol=1e-4)


@pytest.mark.slow  # of tiny models: test_every_model_comes_back of formats/test_kbert.py
@pytest.mark.parametrize("format", ["huggingface"])
def test_a_round_trip_of_a_real_model(weights, format, tmp_path):
    model = load(weights / "bert-tiny-mlm")
    kbert.save_pretrained(model, tmp_path / "out", format=format)
    assert_same_weights(load(tmp_path / "out"), model)


@pytest.mark.slow  # of tiny models: test_parity.py
@pytest.mark.parity
@pytest.mark.parametrize("name", MODELS)
def test_parity_with_transformers(weights, name):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    report = measure_parity(load(weights / name), weights / name)
    limit = {"mlm_logits": 1e-4}
    for output, difference in report.differences.items():
        assert difference < limit.get(output, 2e-5), report


@pytest.mark.slow
def test_sts_b(weights, shared_data, capsys):
    """Spearman's correlation on STS-B's dev set; sentence-transformers reports 0.867 for this model."""
    run_kbert("embed", "--sts-b", shared_data / "glue", "--source", weights / "all-MiniLM-L6-v2", "--json")
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert abs(metrics["spearman"] - 0.867) < 0.002
