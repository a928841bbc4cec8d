"""RunInference around an export: the answers of `kbert predict`, whatever their order."""

import json
import logging

import pytest
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.finetuning.predict_file import predict_file


@pytest.mark.parity
@pytest.mark.usefixtures("apache_beam")
def test_answers_are_those_of_one_process(tmp_path):
    import predict_with_beam

    pipeline = kbert.build_pipeline(
        randomise(kbert.BertClassifier(tiny_config(num_layers=1))), tiny_tokenizer(), labels=["bad", "good"]
    )
    exported = kbert.export(pipeline, tmp_path / "exported")
    rows = [{"id": n, "text": "the film " + "very " * (n % 4) + "good"} for n in range(11)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    predict_with_beam.main(
        ["--export", str(exported), "--input", str(tmp_path / "in.jsonl"), "--output", str(tmp_path / "out")]
        + ["--batch-size", "4", "--runner", "FnApiRunner"]
    )
    logging.getLogger().setLevel(logging.WARNING)  # Beam's runner sets it
    predict_file(kbert.serving.ExportedPipeline(exported), tmp_path / "in.jsonl", tmp_path / "one.jsonl", keep=["id"])
    expected = [json.loads(line) for line in (tmp_path / "one.jsonl").read_text().splitlines()]
    found = [json.loads(line) for path in tmp_path.glob("out-*") for line in path.read_text().splitlines()]
    found.sort(key=lambda row: row["id"])
    assert [row["label"] for row in found] == [row["label"] for row in expected]
    for one, other in zip(found, expected, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], rel=1e-5)
