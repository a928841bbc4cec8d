"""kbert.finetune: the models and options that it takes, and what it records of them."""

import copy
import dataclasses
import functools

import keras
import numpy as np
import pytest
from helpers.at_step import Killed, killed_at
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json
from helpers.tiny_directory import write_table, write_tiny_directory
from helpers.tiny_finetuning import DEV, NO_DEV, QUICK, ROWS, TASK, same, start
from helpers.wrong_values import wrong_inputs, wrong_values

import kbert
from kbert.options import Optimization
from kbert.training.made_by import identify_model


@pytest.fixture(autouse=True, scope="module")
def op_by_op():
    with run_eagerly():
        yield


def test_models_and_pipelines_are_trained_themselves(init, caplog):
    caplog.set_level("INFO", logger="kbert")
    encoder = kbert.load_pretrained(init, "encoder")
    before = encoder.get_weights()
    run = kbert.finetune(encoder, TASK, ROWS, DEV, **(QUICK | {"steps": 2}))
    assert run.pipeline.model.encoder is encoder and not same(before, encoder.get_weights())
    again = kbert.finetune(run.pipeline, TASK, ROWS, **(NO_DEV | {"steps": 2}), class_weight={"good": 2.0})
    assert again.pipeline.model is run.pipeline.model
    assert "no dev set: skipping evaluation and keeping the final weights" in caplog.text
    with pytest.raises(ValueError, match="a source that is loaded"):
        kbert.finetune(encoder, TASK, ROWS, dropout=0.1)
    with pytest.raises(ValueError, match="`class_weight` for the labels.*Received: 'fine'"):
        kbert.finetune(encoder, TASK, ROWS, class_weight={"fine": 1.0}, sequence_length=9)


@pytest.mark.parity
def test_frames_of_pandas_are_examples_and_texts(init):
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame(rows, columns=["text", "label"]) for rows in (ROWS, DEV)]
    texts = pandas.DataFrame({"text": ["a film", "good ."]})
    options = QUICK | {"steps": 2, "strategy": "one"}
    teacher = start(init, TASK, ROWS).pipeline
    run = kbert.finetune(init, TASK, *frames, teacher=teacher, unlabelled=texts, **options)
    assert run.metrics["unlabelled_examples"] == 2
    assert set(run.metrics["dev"]) >= {"accuracy", "loss"}


def test_the_dtype_policy_is_honoured_whether_passed_or_global(init):
    def policies(source=init, **options):
        run = kbert.finetune(source, TASK, ROWS, **NO_DEV | {"steps": 1}, **options)
        return run.pipeline.model.dtype_policy.name, keras.config.dtype_policy().name

    half, full = "mixed_bfloat16", "float32"
    assert policies(precision=half) == (half, full)
    encoder = kbert.load_pretrained(init, "encoder", dtype=half)
    assert policies(encoder) == (half, full)
    with pytest.raises(ValueError, match=r"`precision` must be 'mixed_bfloat16'.*'float32'"):
        policies(encoder, precision=full)
    with pytest.raises(ValueError, match="class_weight"):
        policies(precision=half, class_weight={"fine": 1.0})
    assert keras.config.dtype_policy().name == full
    keras.config.set_dtype_policy(half)
    try:
        assert policies() == (half, half)
        assert policies(precision=full) == (full, half)
    finally:
        keras.config.set_dtype_policy(full)


def test_random_weights_keep_only_the_architecture(init):
    rows = [*ROWS, ("the film", "so so")]

    def built(**options):
        return start(init, TASK, rows, **options).pipeline.model

    loaded, fresh = built(), built(random_weights=True, dropout=0.0)
    again, other = (built(random_weights=True, dropout=0.0, seed=seed) for seed in (0, 1))
    kernels = [
        next(v.numpy() for v in m.weights if v.path.endswith("attention/query/kernel"))
        for m in (kbert.load_pretrained(init, task="encoder"), loaded, fresh, again, other)
    ]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    np.testing.assert_array_equal(kernels[2], kernels[3])
    assert np.abs(kernels[2] - kernels[0]).max() > 0.01
    assert np.abs(kernels[2] - kernels[4]).max() > 0.01
    assert (fresh.num_labels, fresh.dropout, fresh.config.attention_dropout) == (3, 0.0, 0.0)
    assert (loaded.dropout, loaded.config.attention_dropout) == (0.1, 0.1)
    assert fresh.count_params() == loaded.count_params()


def test_other_rows_do_not_resume(init, tmp_path):
    with pytest.raises(Killed):
        kbert.finetune(init, TASK, ROWS, DEV, tmp_path / "run", **QUICK, callbacks=killed_at(1))
    with pytest.raises(ValueError, match="other rows in train"):
        kbert.finetune(init, TASK, ROWS[:-1], DEV, tmp_path / "run", **QUICK)
    with pytest.raises(FileExistsError, match="seed: 0 there, 1 now"):
        kbert.finetune(init, TASK, ROWS, DEV, tmp_path / "run", **QUICK, seed=1)


def test_another_model_does_not_resume(init, tmp_path):
    """A model or a pipeline that is given is known by its weights, its sizes and what is frozen, not by its path."""
    model, again = (kbert.load_pretrained(init, "classification", labels=["bad", "good"]) for _ in range(2))
    again.set_weights(model.get_weights())
    pipelines = [kbert.build_pipeline(one, sequence_length=9) for one in (model, again)]
    weights = model.get_weights()
    for number, (first, second) in enumerate(((model, again), pipelines)):
        path = tmp_path / str(number)
        for source in (first, second):  # the second resumes the run of the first
            with pytest.raises(Killed):
                kbert.finetune(source, TASK, ROWS, DEV, path, **QUICK, callbacks=killed_at(1))
            model.set_weights(weights)
            again.set_weights(weights)
        again.encoder.trainable = False
        with pytest.raises(FileExistsError, match=r"other settings \(source: \{'sha256': .* there, .* now\)"):
            kbert.finetune(second, TASK, ROWS, DEV, path, **QUICK)
        again.encoder.trainable = True
        again.weights[0].assign_add([[1e-3]])
        with pytest.raises(FileExistsError, match=r"other settings \(source"):
            kbert.finetune(second, TASK, ROWS, DEV, path, **QUICK)
        again.set_weights(weights)


def test_training_without_dropout_is_logged(tmp_path, caplog):
    """Shipped models were pre-trained without dropout, and are fine-tuned without it unless it is asked for."""
    caplog.set_level("INFO", logger="kbert")
    sources = {rate: write_tiny_directory(tmp_path / str(rate), dropout=rate) for rate in (0.0, 0.1)}
    steps = NO_DEV | {"steps": 1}
    for source, options, expected in (
        (sources[0.0], {}, "dropout is 0, as in the source; `dropout=0.1` (--dropout 0.1) sets the paper's"),
        (kbert.load_pretrained(sources[0.0]), {}, "dropout is 0, as in the source\n"),
        (sources[0.0], {"dropout": 0.0}, None),
        (sources[0.0], {"dropout": 0.1}, None),
        (sources[0.1], {}, None),
    ):
        caplog.clear()
        kbert.finetune(source, TASK, ROWS, **steps, **options)
        assert "dropout is 0" not in caplog.text if expected is None else expected in caplog.text


def test_frozen_layers_of_a_model_in_memory_stay_frozen(init, caplog):
    model = kbert.load_pretrained(init, "classification", labels=["bad", "good"])
    model.encoder.trainable = False
    caplog.set_level("INFO", logger="kbert")
    run = kbert.finetune(model, TASK, ROWS, **(NO_DEV | {"steps": 1}))
    assert run.pipeline.model.trainable_weights == run.pipeline.model.weights[-2:]  # the head
    trained = sum(weight.shape.num_elements() for weight in run.pipeline.model.trainable_weights)
    assert f"training {trained} of {model.count_params():,} parameters (the rest are frozen" in caplog.text


def test_another_vocabulary_does_not_resume(init):
    model = kbert.load_pretrained(init, "classification", labels=["bad", "good"])
    tokens = model.pretrained.tokenizer.vocabulary
    other = kbert.BertTokenizer([*tokens[:5], *tokens[:4:-1]])
    pipelines = [kbert.build_pipeline(model, tokenizer) for tokenizer in (None, other)]
    first, second = map(identify_model, pipelines)
    assert first != second
    alone = identify_model(model)
    model.pretrained = dataclasses.replace(model.pretrained, tokenizer=other)
    assert identify_model(model) != alone


def test_a_run_records_all_that_it_reads(init, tmp_path):
    for name in ("train", "dev", "more"):
        write_table(tmp_path / f"{name}.csv", ROWS)
    files = {name: TASK.read(tmp_path / f"{name}.csv") for name in ("train", "dev", "more")}
    options = QUICK | {"steps": 1}
    more = {"more_dev": {"_more": files["more"]}}
    kbert.finetune(init, TASK, files["train"], files["dev"], tmp_path / "run", **more, **options)
    recorded = read_json(tmp_path / "run" / "inputs.json")
    assert set(recorded["inputs"]) == {"train", "dev", "more_dev", "source"} and set(recorded["made_by"]) == {"source"}
    examples = {"train": files["train"], "dev": files["dev"], "more_dev_more": files["more"]}
    assert recorded["examples"] == {name: rows.fingerprint() for name, rows in examples.items()}
    train, dev = files["train"].split(0.2)
    kbert.finetune(init, TASK, train, dev, tmp_path / "split", **options)
    assert set(read_json(tmp_path / "split" / "inputs.json")["inputs"]) == {"train", "source"}


def test_copies_of_a_trained_pipeline_read_its_columns(init, tmp_path):
    rows = [{"title": "a", "review": text, "label": label} for text, label in ROWS]
    task = kbert.tasks.Classification(text=["title", "review"], text_separator=" . ")
    pipeline = kbert.finetune(init, task, rows, **(NO_DEV | {"steps": 1, "lora_rank": 2})).pipeline
    pipeline.save(tmp_path / "pipeline.keras")
    copies = [pipeline.merged(), pipeline.in_precision("bfloat16"), copy.deepcopy(pipeline)]
    for one in (pipeline, *copies, keras.models.load_model(tmp_path / "pipeline.keras")):
        assert one.trained_columns == pipeline.trained_columns
        assert len(one.predict({"title": ["a"], "review": ["a good film"]}, verbose=0)["label"]) == 1


def test_an_estimate_writes_nothing(init, tmp_path):
    run = kbert.finetune(init, TASK, ROWS, DEV, tmp_path / "run", **QUICK, dry_run=True)
    estimate, model = run.metrics, run.pipeline.model
    assert not (tmp_path / "run").exists()
    assert (estimate["examples"], estimate["windows"], estimate["steps"]) == (30, 30, 12)
    assert estimate["parameters"] == estimate["trainable_parameters"] == model.count_params()
    assert estimate["memory_bytes"] > 16 * model.count_params() and estimate["seconds"] > 0


def test_wrong_options_are_named(init):
    wrong_values(
        functools.partial(kbert.finetune, init, TASK, ROWS, **NO_DEV),
        ("steps", 0, "a positive integer or None. Received: 0"),
        ("epochs", "3", r"a number in \(0, inf\).* Received: '3'"),
        ("optimization", {"layer_decay": "x"}, r"an Optimization. Received: \{\'layer_decay\': \'x\'\}"),
        ("batch_size", None, "a positive integer. Received: None"),
        ("learning_rate", lambda step: 1e-3, r"a number in \(0, inf\). Received: <f"),
        ("keep", "first", r"one of \('best', 'last'\)"),
        ("evaluate_every", "day", ""),
        # what would be ignored
        ({"patience": 3}, "finetune: `patience` needs `dev`. Received: patience=3"),
        ({"more_dev": {"_x": DEV}}, r"finetune: `more_dev` needs `dev`. Received: more_dev=\['_x'\]"),
        ({"evaluate_every": 3}, "finetune: `evaluate_every` needs `dev`. Received: evaluate_every=3 and dev=None"),
        ({"profile": "1:2"}, "finetune: `profile` needs .*`log_dir` or `output`. .* profile='1:2'"),
    )
    with pytest.raises(ValueError, match=r"`layer_decay` must be a number in \(0, 1\] or None. Received: 'x'"):
        Optimization(layer_decay="x")


def test_a_pipeline_keeps_its_length(init):
    """Of `init` it is 16."""
    length = {"sequence_length": None}
    loaded = kbert.load_pretrained(init)
    assert start(loaded, TASK, ROWS, **length).pipeline.settings()["sequence_length"] == 16
    masks = kbert.build_pipeline(loaded, sequence_length=11)
    run = start(masks, TASK, ROWS, **length)
    assert run.pipeline.settings()["sequence_length"] == 11
    assert masks.tokenizer.special_tokens_in_text and not run.pipeline.tokenizer.special_tokens_in_text
    again = start(run.pipeline, TASK, ROWS, **length)
    assert again.pipeline.settings()["sequence_length"] == 11
    given = start(run.pipeline, TASK, ROWS, sequence_length=9)
    assert given.pipeline.settings()["sequence_length"] == 9
    questions = {"question": ["the film ?"], "context": ["the film"], "answer": ["film"], "answer_start": [4]}
    longest = loaded.config.max_sequence_length  # below the default of spans, which is not that of texts
    spans = start(masks, kbert.tasks.SpanExtraction(doc_stride=4), questions, **length)
    assert spans.pipeline.settings()["sequence_length"] == min(384, longest) > 11


def test_what_is_no_model_is_named(init, tmp_path):
    from kbert.finetuning.finetune import FinetunedRun

    pipeline = start(init, TASK, ROWS).pipeline
    run = FinetunedRun({}, [], pipeline, None)
    hint = r".* Received: FinetunedRun; give its `pipeline`"
    wrong_inputs(
        lambda call: call(run),
        (lambda run: kbert.finetune(run, TASK, ROWS, **NO_DEV), f"finetune: `source` must be .* kbert.Pipeline{hint}"),
        (lambda run: kbert.evaluate(run, TASK, ROWS), f"evaluate: `pipeline` must be .* a kbert.Pipeline{hint}"),
        (lambda run: kbert.export(run, "nowhere"), f"export: `pipeline` must be .* a kbert.Pipeline{hint}"),
        (lambda run: kbert.save_pretrained(run, tmp_path), f"save_pretrained: expected .* or a kbert.Pipeline{hint}"),
        (kbert.load_pretrained, f"`source` must be the path of a model or its name .*{hint}"),
        error=TypeError,
    )
    model = kbert.BertClassifier(pipeline.model.config, num_labels=2)
    with pytest.raises(ValueError, match=r"`source` must be .* or a pipeline.* Received: a BertClassifier without"):
        kbert.finetune(model, TASK, ROWS, **NO_DEV)


def test_one_warning_where_the_vocabulary_is_of_another_language(init, caplog):
    kbert.finetune(init, TASK, [(f"語 {text} 語", label) for text, label in ROWS], **(NO_DEV | {"steps": 1}))
    assert caplog.text.count("the training examples: 33 % of the tokens are [UNK]") == 1
    caplog.clear()
    kbert.finetune(init, TASK, ROWS, **(NO_DEV | {"steps": 1}))
    assert "[UNK]" not in caplog.text
