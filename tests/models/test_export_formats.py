"""Models exported to LiteRT and ONNX give the same numbers in the runtimes of these formats."""

import numpy as np
import pytest
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert

CONFIG = tiny_config(num_layers=1)
MODELS = {
    "classifier": lambda: kbert.BertClassifier(CONFIG, num_labels=3),
    "causal": lambda: kbert.BertEncoder(tiny_config(num_layers=1, causal=True, pooled_token="last")),
    "packed": lambda: kbert.BertEncoder(CONFIG, num_parts=2),
    "multiple choice": lambda: kbert.BertMultipleChoice(CONFIG),
    "regressor": lambda: kbert.BertRegressor(CONFIG),
    "span extractor": lambda: kbert.BertSpanExtractor(CONFIG),
    "tagger": lambda: kbert.BertTagger(CONFIG, num_labels=3),
    "sentence encoder": lambda: kbert.BertSentenceEncoder(CONFIG),
    "pretrainer": lambda: kbert.BertPretrainer(CONFIG),
}


def batch_of(model, rows, length):
    lead = (rows, 2) if model.task == "multiple_choice" else (rows,)
    ids = np.random.default_rng(0).integers(5, 20, (*lead, length)).astype("int32")
    mask = np.ones_like(ids, bool)
    mask[1:, ..., length - 2 :] = False
    batch = {
        "token_ids": ids,
        "segment_ids": ids % 2,
        "padding_mask": mask,
        "mask_positions": ids[:, :3] % length,
        "part_ids": np.where(mask, 1 + (np.arange(length) >= 3), 0).astype("int32"),
        "position_ids": np.broadcast_to(np.arange(length, dtype="int32") % 3, ids.shape),
    }
    return {name: batch[name] for name in model.input}


def run_litert(path):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert (the extra mobile)")
    run = interpreter.Interpreter(str(path)).get_signature_runner()
    return lambda batch: run(**batch)


def run_onnx(path):
    session = pytest.importorskip("onnxruntime").InferenceSession(str(path))
    names = [output.name for output in session.get_outputs()]
    return lambda batch: dict(zip(names, session.run(names, batch), strict=True))


FORMS = {"litert": ("tflite", run_litert), "onnx": ("onnx", run_onnx)}
QUICK = (("litert", "classifier"), ("onnx", "pretrainer"))  # the other models differ in their head or their inputs


@pytest.mark.parity
@pytest.mark.parametrize("export", slow_but(QUICK, [(form, name) for form in FORMS for name in MODELS]), ids="-".join)
def test_the_runtime_gives_the_models_numbers(export, tmp_path):
    form, name = export
    suffix, start = FORMS[form]
    pytest.importorskip("ai_edge_litert" if form == "litert" else "tf2onnx", reason="needs the extra mobile")
    model = randomise(MODELS[name](), scale=0.2)  # never called before
    path = tmp_path / f"it.{suffix}"
    model.export(str(path), format=form, verbose=False)
    run = start(path)
    for rows, length in ((2, 9), (3, 6)):
        batch = batch_of(model, rows, length)
        answers, expected = run(batch), model(batch)
        assert answers.keys() == expected.keys()
        for output, values in expected.items():
            np.testing.assert_allclose(answers[output], values, atol=2e-6)


def test_what_cannot_be_exported_says_what_can(tmp_path):
    model = kbert.BertClassifier(CONFIG, num_labels=3)
    pipeline = kbert.build_pipeline(model, tiny_tokenizer())
    for form in ("litert", "onnx"):
        with pytest.raises(ValueError, match=r"strings can be exported .* pipeline\.model\.export"):
            pipeline.export(tmp_path / "it", format=form)
    model.quantize("int8")
    with pytest.raises(ValueError, match="LiteRT cannot read Keras' int8 kernels.*optimizations"):
        model.export(str(tmp_path / "it.tflite"), format="litert")
