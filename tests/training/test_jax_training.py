"""Pre-training on Keras' JAX backend: in a process without TensorFlow, on two devices, killed and resumed."""

import json

import numpy as np
import pytest
from helpers.pretraining_fixtures import corpus, records, tokenizer  # noqa: F401 - fixtures
from helpers.run_python import BLOCK_TENSORFLOW, run_python

import kbert
from kbert.config import BertConfig
from kbert.models.pretrainer import BertPretrainer
from kbert.pretraining.batch_files import BatchFiles
from kbert.pretraining.dataset import pretraining_dataset
from kbert.tasks.pretraining.pretrain_on_batches import pretrain_on_batches
from kbert.tasks.pretraining.write_batches import write_batches

B, S, P, STEPS = 4, 24, 4, 6
SETTINGS = {"batch_size": B, "sequence_length": S, "max_predictions": P, "seed": 3}
TRAINING = {"learning_rate": 0.01, "dropout": 0.0, "log_every": 3, "checkpoint_every": 3}
SAME = ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "gradient_norm", "val_mlm_cross_entropy", "val_nsp_accuracy")


@pytest.fixture(scope="module")
def batches(records, tmp_path_factory):  # noqa: F811
    directory = tmp_path_factory.mktemp("written") / "batches"
    write_batches(records, directory, steps=STEPS, evaluation_batches=2, batches_per_file=4, **SETTINGS)
    return directory


@pytest.fixture(scope="module")
def start(tokenizer, tmp_path_factory):  # noqa: F811
    """A model with random weights, on disk."""
    sizes = {"num_layers": 1, "hidden_dim": 12, "num_heads": 3, "intermediate_dim": 20, "max_sequence_length": S}
    model = BertPretrainer(BertConfig(vocabulary_size=tokenizer.vocabulary_size, **sizes))
    directory = tmp_path_factory.mktemp("start") / "model"
    settings = kbert.pipelines.settings.ModelSettings(sequence_length=S)
    kbert.save_pretrained(model, directory, tokenizer=tokenizer, settings=settings)
    return directory


@pytest.fixture(scope="module")
def on_tensorflow(batches, start):
    return pretrain_on_batches(batches, init=start, **TRAINING)


def test_written_batches_are_those_of_the_dataset(batches, records, tokenizer):  # noqa: F811
    for options, evaluation in (({"batches": STEPS}, False), ({"batches": 2, "evaluation": True}, True)):
        files = BatchFiles(batches, evaluation=evaluation)
        dataset = pretraining_dataset(records, tokenizer, **SETTINGS, **options)
        assert len(files) == options["batches"]
        for expected, found in zip(dataset.as_numpy_iterator(), files, strict=False):
            for one, other in zip(expected, found, strict=True):
                assert one.keys() == other.keys()
                for name in one:
                    assert one[name].dtype == other[name].dtype
                    np.testing.assert_array_equal(other[name], one[name], err_msg=name)
    np.testing.assert_array_equal(BatchFiles(batches, 5)[0][0]["token_ids"], BatchFiles(batches)[5][0]["token_ids"])


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
        pretrain_on_batches(batches, steps=7)


TRAIN = (
    BLOCK_TENSORFLOW
    + """
import json, os, shutil, signal, sys
import keras
from kbert.tasks.pretraining.pretrain_on_batches import pretrain_on_batches
from kbert.training.signals import Interrupted

batches, init, output, settings = *sys.argv[1:4], json.loads(sys.argv[4])
settings |= {"init": init, "strategy": "mirrored", "logical_cpus": 2}

class Stop(keras.callbacks.Callback):
    steps = 0

    def on_train_batch_begin(self, batch, logs=None):
        self.steps += 1
        if self.steps == 5:  # within a window, where the model's variables are empty
            os.kill(os.getpid(), signal.SIGTERM)

try:
    pretrain_on_batches(batches, output=output, callbacks=[Stop()], **settings)
    interrupted = False
except Interrupted:
    interrupted = sorted(os.listdir(output + "/checkpoints"))
    shutil.copytree(output + "/checkpoints", output + "-killed/checkpoints")
run = pretrain_on_batches(batches, output=output, **settings)
import jax
sharding = run.model.trainable_variables[0].value.sharding
print(json.dumps({"history": run.history, "metrics": run.metrics, "devices": len(sharding.device_set),
                  "interrupted": interrupted, "tensorflow": [n for n in sys.modules if n.startswith("tensorflow")]}))
"""
)


@pytest.mark.parity
def test_two_jax_devices_without_tensorflow_train_as_tensorflow_does(batches, start, on_tensorflow, tmp_path):
    pytest.importorskip("jax")
    output = tmp_path / "run"
    result = run_python(TRAIN, batches, start, output, json.dumps(TRAINING), backend="jax")
    assert result["devices"] == 2 and not result["tensorflow"]
    assert result["interrupted"] == ["description", "step-0000000003", "step-0000000005"]
    assert [record["step"] for record in result["history"]] == [3, 5, 6]
    for name in SAME:
        found, expected = result["history"][0][name], on_tensorflow.history[0][name]
        np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg=name)
    for name in ("loss", "mlm_cross_entropy", "mlm_perplexity", "nsp_accuracy"):
        np.testing.assert_allclose(result["metrics"][name], on_tensorflow.metrics[name], rtol=1e-4, err_msg=name)
    loaded = kbert.load_pretrained(output)
    for found, expected in zip(loaded.get_weights(), on_tensorflow.model.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-4)
    unfinished = kbert.load_pretrained(f"{output}-killed@5")
    assert unfinished.task == "pretraining"
    for found, expected in zip(unfinished.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, atol=0.02)  # a step later; the first five changed some by 0.1
    kbert.export(kbert.build_pipeline(loaded), tmp_path / "exported")
    assert (tmp_path / "exported" / "1" / "saved_model.pb").is_file()
