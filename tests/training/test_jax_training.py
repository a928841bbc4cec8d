"""Pre-training on Keras' JAX backend: in a process without TensorFlow, on two devices, killed and resumed."""

import importlib.util
import json

import numpy as np
import pytest
from helpers.event_files import read_scalars, tags_of
from helpers.pretraining_fixtures import corpus, records, tokenizer  # noqa: F401 - fixtures
from helpers.run_eagerly import run_eagerly
from helpers.run_python import BLOCK_TENSORFLOW, run_python
from helpers.slow_but import slow_but

import kbert
from kbert.config import BertConfig
from kbert.models.pretrainer import BertPretrainer
from kbert.pretraining import write_batches
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.run.stored_batches import BatchFiles

B, S, P, STEPS = 4, 24, 4, 6
SETTINGS = {"batch_size": B, "sequence_length": S, "max_predictions": P, "seed": 3, "packed": False}
PACKED = SETTINGS | {"sequence_length": 64, "max_predictions": 10, "packed": True}
TRAINING = {"learning_rate": 0.01, "dropout": 0.0, "log_every": 3, "checkpoint_every": 3}


def of_run(max_predictions, **settings):
    return settings | {"masking": kbert.pretraining.Masking(max_predictions=max_predictions)}


SAME = ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "gradient_norm", "val_mlm_cross_entropy", "val_nsp_accuracy")


@pytest.fixture(scope="module")
def batches(records, tmp_path_factory):  # noqa: F811
    directory = tmp_path_factory.mktemp("written") / "batches"
    write_batches(records, directory, steps=STEPS, evaluation_batches=2, batches_per_file=4, **of_run(**SETTINGS))
    return directory


@pytest.fixture(scope="module")
def packed_batches(records, tmp_path_factory):  # noqa: F811
    directory = tmp_path_factory.mktemp("written") / "packed"
    write_batches(records, directory, steps=STEPS, evaluation_batches=2, batches_per_file=4, **of_run(**PACKED))
    return directory


@pytest.fixture(scope="module")
def start(tokenizer, tmp_path_factory):  # noqa: F811
    """A model with random weights, on disk."""
    sizes = {"num_layers": 1, "hidden_dim": 12, "num_heads": 3, "intermediate_dim": 20, "max_sequence_length": 64}
    model = BertPretrainer(BertConfig(vocabulary_size=tokenizer.vocabulary_size, **sizes))
    directory = tmp_path_factory.mktemp("start") / "model"
    settings = kbert.pipelines.settings.ModelSettings(task=model.task, sequence_length=S)
    kbert.save_pretrained(model, directory, tokenizer=tokenizer, settings=settings)
    return directory


@pytest.fixture(scope="module")
def on_tensorflow(batches, start):
    with run_eagerly():
        return kbert.pretrain(batches, init=start, **TRAINING)


@pytest.fixture(scope="module")
def packed_on_tensorflow(packed_batches, start):
    return kbert.pretrain(packed_batches, init=start, **TRAINING)


@pytest.mark.slow  # test_rows_are_packed_where_kbert_pretrain_packs_them
@pytest.mark.parametrize("packed", slow_but([True], [False, True]))  # by the same writer
def test_written_batches_are_those_of_the_dataset(request, records, tokenizer, packed):  # noqa: F811
    batches = request.getfixturevalue("packed_batches" if packed else "batches")
    settings = PACKED if packed else SETTINGS
    for options, evaluation in (({"batches": STEPS}, False), ({"batches": 2, "evaluation": True}, True)):
        files = BatchFiles(batches, evaluation=evaluation)
        dataset = pretraining_dataset(records, tokenizer, **settings, **options)
        assert len(files) == options["batches"]
        for expected, found in zip(dataset.as_numpy_iterator(), files, strict=False):
            for one, other in zip(expected, found, strict=True):
                assert one.keys() == other.keys()
                for name in one:
                    assert one[name].dtype == other[name].dtype
                    np.testing.assert_array_equal(other[name], one[name], err_msg=name)
    np.testing.assert_array_equal(BatchFiles(batches, 5)[0][0]["token_ids"], BatchFiles(batches)[5][0]["token_ids"])


@pytest.mark.slow  # test_written_batches_are_those_of_the_dataset[True]
def test_packed_batches_train_as_kbert_pretrain_does(records, packed_batches, start, packed_on_tensorflow):  # noqa: F811
    written = BatchFiles(packed_batches)
    assert max(written[step][0]["part_ids"].max() for step in range(STEPS)) > 1
    found, same = packed_on_tensorflow, of_run(**PACKED) | TRAINING | {"evaluation_batches": 2}
    with run_eagerly():
        expected = kbert.pretrain(records, init=start, steps=STEPS, **same)
    for one, other in zip(found.history, expected.history, strict=True):
        for name in ("step", *(SAME if one["step"] else ("val_loss", "val_mlm_cross_entropy"))):
            np.testing.assert_allclose(one[name], other[name], rtol=1e-5, err_msg=name)
    for one, other in zip(found.model.get_weights(), expected.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)  # Adam magnifies the rounding of gradients near 0
    assert found.model.input.keys() == expected.model.input.keys() and "part_ids" not in found.model.input


def test_rows_are_packed_where_kbert_pretrain_packs_them(records, tmp_path, caplog):  # noqa: F811
    with caplog.at_level("INFO", "kbert"):
        written = write_batches(records, tmp_path / "batches", steps=1, batch_size=2, sequence_length=64)
    assert (written["packed"], written["num_parts"]) == (True, 4) and "packed rows: " in caplog.text


def test_damaged_batches_are_named(batches, tmp_path):
    with pytest.raises(ValueError, match="Expected a directory of batches.*Received"):
        BatchFiles(tmp_path)
    for file in batches.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    damaged = tmp_path / "train-00001.npz"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    BatchFiles(tmp_path)[0]
    with pytest.raises(ValueError, match="train-00001.npz is damaged"):
        BatchFiles(tmp_path)[4]
    damaged.write_bytes(content[:-1])
    with pytest.raises(ValueError, match="train-00001.npz is missing or truncated"):
        BatchFiles(tmp_path)
    with pytest.raises(ValueError, match="`steps` must be from 1 to 6.*Received: 7"):
        kbert.pretrain(batches, steps=7)


TRAIN = (
    BLOCK_TENSORFLOW
    + """
import json, os, shutil, signal, sys
import keras
import kbert
from kbert.training.signals import Interrupted

batches, packed_batches, init, output, settings = *sys.argv[1:5], json.loads(sys.argv[5])
settings |= {"init": init, "strategy": "mirrored", "execution": kbert.pretraining.Execution(logical_cpus=2)}

class Stop(keras.callbacks.Callback):
    steps = 0

    def on_train_batch_begin(self, batch, logs=None):
        self.steps += 1
        if self.steps == 5:  # within a window, where the model's variables are empty
            os.kill(os.getpid(), signal.SIGTERM)

try:
    kbert.pretrain(batches, output=output, callbacks=[Stop()], **settings)
    interrupted = False
except Interrupted:
    interrupted = sorted(os.listdir(output + "/checkpoints"))
    shutil.copytree(output + "/checkpoints", output + "-killed/checkpoints")
run = kbert.pretrain(batches, output=output, **settings)
packed = kbert.pretrain(packed_batches, optimization=kbert.options.Optimization(accumulate=2), **settings)
estimate = kbert.pretrain(batches, dry_run=True, **settings).metrics
import jax
sharding = run.model.trainable_variables[0].value.sharding
print(json.dumps({"history": run.history, "packed": packed.history, "metrics": run.metrics,
                  "estimate": estimate, "devices": len(sharding.device_set), "interrupted": interrupted,
                  "tensorflow": [n for n in sys.modules if n.startswith("tensorflow")]}))
"""
)


QUICK = (
    BLOCK_TENSORFLOW
    + """
import json, sys
import kbert

batches, init, output, settings = *sys.argv[1:4], json.loads(sys.argv[4])
settings |= {"strategy": "mirrored", "execution": kbert.pretraining.Execution(logical_cpus=2)}
run = kbert.pretrain(batches, init=init, output=output, **settings)
sharding = run.model.trainable_variables[0].value.sharding
print(json.dumps({"history": run.history, "metrics": run.metrics, "devices": len(sharding.device_set),
                  "tensorflow": [n for n in sys.modules if n.startswith("tensorflow")]}))
"""
)
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")  # before the fixtures


def assert_same_training(result, on_tensorflow, output, parts=()):
    """The losses, metrics and weights of a run on two JAX devices are TensorFlow's, and it had no TensorFlow.

    `parts` are the steps at which the parts of an interrupted window end, whose means are of fewer steps.
    """
    assert result["devices"] == 2 and not result["tensorflow"]
    assert [record["step"] for record in result["history"]] == sorted({0, 3, 6, *parts})
    found = {record["step"]: record for record in result["history"]}
    for expected in on_tensorflow.history[1:]:
        step = expected["step"]
        for name in SAME:
            if step not in parts or name.startswith("val_"):
                np.testing.assert_allclose(found[step][name], expected[name], rtol=1e-4, err_msg=name)
    for name in ("loss", "mlm_cross_entropy", "mlm_perplexity", "nsp_accuracy"):
        np.testing.assert_allclose(result["metrics"][name], on_tensorflow.metrics[name], rtol=1e-4, err_msg=name)
    for found, expected in zip(
        kbert.load_pretrained(output).get_weights(), on_tensorflow.model.get_weights(), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=2e-4)


@pytest.mark.parity
@needs_jax
def test_two_jax_devices_train_as_tensorflow_does(batches, start, on_tensorflow, tmp_path):
    output = tmp_path / "run"
    result = run_python(QUICK, batches, start, output, json.dumps(TRAINING), backend="jax")
    assert_same_training(result, on_tensorflow, output)
    curves = read_scalars(output / "logs")  # without TensorFlow too
    assert curves["train", "loss/loss"] == [(r["step"], pytest.approx(r["loss"])) for r in result["history"][1:]]


FIT = """
import json, os, signal, sys
import keras
import numpy as np
from kbert.training import ExactResume
from kbert.training.signals import Interrupted

def batches(start):
    for n in range(start, 100):
        yield np.random.default_rng(n).normal(size=(4, 3)), np.random.default_rng(-n + 200).normal(size=(4, 1))

def fit(output, *callbacks):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    resume = ExactResume(output, model, 4, every=3)
    epochs = {"initial_epoch": resume.epoch, "epochs": 3}
    model.fit(batches(resume.step), steps_per_epoch=4, callbacks=[*callbacks, resume], verbose=0, **epochs)
    return [weight.tolist() for weight in model.get_weights()]

whole = fit(sys.argv[1] + "/whole")
stop = lambda batch, logs: batch == 1 and os.kill(os.getpid(), signal.SIGTERM)
try:
    fit(sys.argv[1] + "/run", keras.callbacks.LambdaCallback(on_train_batch_end=stop))
except Interrupted:
    saved = os.listdir(sys.argv[1] + "/run/checkpoints")
print(json.dumps({"saved": saved, "same": fit(sys.argv[1] + "/run") == whole}))
"""


@pytest.mark.slow  # the same with TensorFlow: test_resume.py::test_a_fit_resumes_in_the_middle_of_an_epoch
@needs_jax
def test_a_plain_fit_resumes_in_the_middle_of_an_epoch(tmp_path):
    assert run_python(FIT, tmp_path, backend="jax") == {"saved": ["step-0000000002"], "same": True}


@pytest.mark.slow  # without an interruption, packed rows and a dry run: the test above
@pytest.mark.parity
@needs_jax
def test_two_jax_devices_without_tensorflow_train_as_tensorflow_does(
    batches, packed_batches, start, on_tensorflow, packed_on_tensorflow, tmp_path
):
    output = tmp_path / "run"
    result = run_python(TRAIN, batches, packed_batches, start, output, json.dumps(TRAINING), backend="jax")
    assert_same_training(result, on_tensorflow, output, parts=(5, 6))
    assert result["estimate"]["steps"] == STEPS and result["estimate"]["seconds"] > 0
    assert result["interrupted"] == ["description", "step-0000000003", "step-0000000005"]
    for name in SAME:
        found, expected = result["packed"][-1][name], packed_on_tensorflow.history[-1][name]
        np.testing.assert_allclose(found, expected, rtol=1e-3, err_msg=f"packed, in micro-batches: {name}")
    curves = read_scalars(output / "logs")  # without TensorFlow too
    assert curves["train", "loss/loss"] == [(r["step"], pytest.approx(r["loss"])) for r in result["history"][1:]]
    final = curves["final", "loss/mlm_cross_entropy"]
    assert final == [(6, pytest.approx(result["metrics"]["mlm_cross_entropy"]))]
    assert ("train", "norms/update_ratio/encoder_block_0") in curves
    assert ("train", "self_attention/entropy/encoder_block_0") in tags_of(output / "logs", "histograms")
    assert ("examples", "masked examples") in tags_of(output / "logs", "text")
    loaded = kbert.load_pretrained(output)
    unfinished = kbert.load_pretrained(f"{output}-killed@5")
    assert unfinished.task == "pretraining"
    for found, expected in zip(unfinished.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, atol=0.02)  # a step later; the first five changed some by 0.1
    kbert.export(kbert.build_pipeline(loaded), tmp_path / "exported")
    assert (tmp_path / "exported" / "1" / "saved_model.pb").is_file()
