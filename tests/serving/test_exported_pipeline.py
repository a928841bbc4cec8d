"""An export asked in this process answers files as the pipeline that was exported."""

import json
import shutil

import pytest
from helpers.served_models import KINDS
from helpers.slow_but import slow_but
from helpers.tiny_bert import VOCABULARY, randomise, tiny_config

import kbert
from kbert.serving.exported_pipeline import ExportedPipeline
from kbert.serving.saved_model_file import find_export


# What comes out of the other kinds' graphs: test_export.py; their rows: the pipelines' own tests; those of taggers also
# test_answers_of_saved_models of inspection/playground/test_answers.py.
@pytest.mark.parametrize("served", slow_but(("single", "span"), KINDS), indirect=True)
def test_rows_are_those_of_the_pipeline(served):
    exported = ExportedPipeline(served.path)
    pipeline = served.pipeline
    assert exported.task == pipeline.task and exported.input_names == tuple(pipeline.input_names)
    assert exported.answers.fits_table == pipeline.answers.fits_table
    columns = {name: [_text(value) for value in values] for name, values in served.columns.items()}
    found = list(exported.answers.to_dicts(exported.predict_on_batch(columns)))
    expected = list(pipeline.answers.to_dicts(pipeline.predict_on_batch(columns)))
    assert len(found) == len(expected) > 3
    for one, other in zip(found, expected, strict=True):
        assert _rounded(one) == _rounded(other)
        if exported.answers.fits_table:
            assert list(exported.answers.table_row(one)) == list(pipeline.answers.table_row(other))


def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _rounded(value):
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


@pytest.mark.parametrize("name", ["a[b]", "back\\slash"])
def test_a_directory_that_tensorflow_reads_as_a_pattern(served_models, tmp_path, caplog, name):
    served = served_models["single"]
    path = kbert.export(served.pipeline, tmp_path / name)
    assert f"{path}: TensorFlow reads [ and \\ in a path as a pattern" in caplog.text
    texts = {"text": [_text(text) for text in served.columns["text"]]}
    here, elsewhere = (ExportedPipeline(place).predict_on_batch(texts) for place in (path, served.path))
    assert here["probabilities"].tolist() == elsewhere["probabilities"].tolist()


def test_the_highest_version_is_meant(tmp_path):
    for version in ("2", "10", "9"):
        (tmp_path / "m" / version).mkdir(parents=True)
        (tmp_path / "m" / version / "saved_model.pb").touch()
    assert find_export(tmp_path / "m") == tmp_path / "m/10" and find_export(tmp_path / "m/9") == tmp_path / "m/9"
    assert find_export(tmp_path) is None and find_export("google-bert/bert-base-uncased") is None
    with pytest.raises(FileNotFoundError, match="Expected a SavedModel"):
        ExportedPipeline(tmp_path)
    with pytest.raises(ValueError, match="of kbert.export, with card.json"):
        ExportedPipeline(tmp_path / "m")
    card = {"task": "classification", "parameters": 1, "labels": [], "signatures": []}
    (tmp_path / "m/10/card.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match="of kbert.export, with card.json"):
        ExportedPipeline(tmp_path / "m")


@pytest.mark.parametrize(
    "name, value", [("task", []), ("parameters", "x"), ("max_rows", None), ("inputs", {"other": []})]
)
def test_a_damaged_card_is_refused(served_models, tmp_path, name, value):
    shutil.copytree(served_models["single"].path, tmp_path / "1")
    card = json.loads((tmp_path / "1/card.json").read_text())
    default = card["signatures"]["serving_default"]
    {"max_rows": default, "inputs": default["example"]["body"]}.get(name, card)[name] = value
    (tmp_path / "1/card.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match="of kbert.export, with card.json"):
        ExportedPipeline(tmp_path)


def test_the_limits_of_the_export_hold(served_models):
    exported = ExportedPipeline(served_models["single"].path)
    with pytest.raises(ValueError, match=r"`signature` must be one of \['classify', 'serving_default'\].* 'tag'"):
        exported.predict_on_batch({"text": ["good"]}, "tag")
    with pytest.raises(
        ValueError, match=r"bytes of text. Received: 1250000. Send less at once, or export .* max_request_bytes\.$"
    ):
        exported.predict_on_batch({"text": ["good " * 250_000]})
    with pytest.raises(
        ValueError, match=r"signature 'serving_default': expected a dict with \['text'\]. Received: \['a'\]"
    ):
        exported.predict_on_batch({"a": ["good"]})
    with pytest.raises(ValueError, match=r"this classification model takes \['text'\]. Received: also \['text_pair'\]"):
        exported.predict_on_batch({"text": ["good"], "text_pair": ["film"]})
    of_classify = r"signature 'classify' \(serialised tf.Examples of \['text'\]\): "
    with pytest.raises(ValueError, match=rf"{of_classify}expected a dict with \['inputs'\]. Received: \['text'\]"):
        exported.predict_on_batch({"text": ["good"]}, "classify")
    with pytest.raises(ValueError, match=f"{of_classify}Could not parse example input, value: 'good'"):
        exported.predict_on_batch({"inputs": ["good"]}, "classify")
    assert len(exported.fingerprint()) == 64 and exported.fingerprint() == exported.fingerprint()
    assert exported.fingerprint() != ExportedPipeline(served_models["regression"].path).fingerprint()
    assert json.dumps(sorted(exported.output)) == '["label", "probabilities"]'


@pytest.mark.slow  # test_rows_are_those_of_the_pipeline
def test_a_vocabulary_with_empty_lines_answers_as_the_pipeline(tmp_path):
    """As that of bert-base-japanese has one, whose ids count."""
    tokens = [*VOCABULARY[:7], "", *VOCABULARY[7:12], "", *VOCABULARY[12:]]
    model = randomise(kbert.BertPretrainer(tiny_config(vocabulary_size=len(tokens), num_layers=1)))
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    pipeline = kbert.build_pipeline(model, kbert.BertTokenizer(tmp_path / "vocab.txt"), top_k=len(tokens))
    kbert.save_pretrained(pipeline, tmp_path / "model")
    exported = ExportedPipeline(kbert.export(tmp_path / "model", tmp_path / "exported"))
    texts = {"text": ["the [MASK] is good.", "paris [MASK] france"]}
    found = list(exported.answers.to_dicts(exported.predict_on_batch(texts)))
    pipeline.run_eagerly = True  # sooner than tracing
    assert _rounded(list(pipeline.answers.to_dicts(pipeline.predict_on_batch(texts)))) == found
