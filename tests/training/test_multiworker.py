"""Two processes on this machine train as one device does; minutes on a busy machine, so marked slow."""

import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.run_recipe import as_flags
from helpers.tiny_corpus import VOCABULARY, make_documents, write_lines
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert
from kbert.text.vocabulary import write_vocabulary

pytestmark = pytest.mark.slow
REPLICAS_RUN = "tests/helpers/replicas_run.py"
GIVEN = set()  # ports: none is given twice, as a worker of the test before may still hold it


def free_ports(count):
    """Below those that systems give to outgoing connections, one of which might take a port before its worker does."""
    ports = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(10_000, 32_768)
        if port in GIVEN:
            continue
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            GIVEN.add(port)
            ports.append(port)
    return ports


def cluster():
    """TF_CONFIG of each of two workers."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    return [
        json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}) for index in (0, 1)
    ]


def start(*words, **environment):
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(processes):
    for process in processes:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors


def test_two_workers_are_one_device(tmp_path):
    (tmp_path / "one").mkdir()
    finish([start(ROOT / REPLICAS_RUN, "one", tmp_path / "one")])
    finish([start(ROOT / REPLICAS_RUN, "multiworker", tmp_path, TF_CONFIG=config) for config in cluster()])
    one = json.loads((tmp_path / "one" / "result.json").read_text())["pretraining"]
    results = [json.loads((tmp_path / f"result-{index}.json").read_text()) for index in (0, 1)]
    assert [result["replicas"] for result in results] == [2, 2]
    for result in results:
        for name, value in one["evaluation"].items():
            np.testing.assert_allclose(result["pretraining"]["evaluation"][name], value, rtol=1e-5, err_msg=name)
        for name, value in one["weights"].items():
            np.testing.assert_allclose(result["pretraining"]["weights"][name], value, rtol=1e-5, atol=1e-5)
    chief = results[0]["pretraining"]["history"]
    assert [record["step"] for record in chief] == [5, 7] and results[1]["pretraining"]["history"] == []
    for record, expected in zip(chief, one["history"], strict=True):
        for name in ("loss", "mlm_accuracy", "nsp_loss", "val_loss", "val_mlm_cross_entropy", "gradient_norm"):
            np.testing.assert_allclose(record[name], expected[name], rtol=1e-5, err_msg=name)


def test_of_two_workers_the_first_writes_what_the_recipe_leaves(tmp_path):
    write_tiny_directory(tmp_path / "init")
    write_table(tmp_path / "train.csv", sentences(48))
    arguments = (
        *as_flags(train=tmp_path / "train.csv", dev=0.1, source=tmp_path / "init"),
        *as_flags(steps=6, batch_size=8, sequence_length=9, dropout=0, learning_rate=1e-3, checkpoint_every=3),
    )
    command = ("-m", "kbert", "finetune", "classification")
    finish([start(*command, *arguments, "--output", tmp_path / "one")])
    both = (*arguments, "--output", tmp_path / "two", "--strategy", "multiworker")
    finish([start(*command, *both, TF_CONFIG=config) for config in cluster()])
    one, two = (kbert.load_pretrained(tmp_path / name).get_weights() for name in ("one", "two"))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)
    assert {path.name for path in (tmp_path / "two").iterdir()} == {path.name for path in (tmp_path / "one").iterdir()}


def test_of_two_workers_the_first_writes_text_to_records(tmp_path):
    for n in range(2):
        write_lines(tmp_path / f"{n}.txt", make_documents(40, seed=n))
    write_vocabulary(tmp_path / "vocab.txt", VOCABULARY)
    command = (
        *("-m", "kbert", "pretrain", tmp_path / "0.txt", tmp_path / "1.txt"),
        *as_flags(vocabulary=tmp_path / "vocab.txt", steps=4, batch_size=8, sequence_length=32, held_out=0.2),
        *as_flags(dropout=0, learning_rate=1e-3, evaluation_batches=1, checkpoint_every=2),
    )
    finish([start(*command, "--output", tmp_path / "one")])
    both = (*command, "--output", tmp_path / "two", "--strategy", "multiworker")
    finish([start(*both, TF_CONFIG=config) for config in cluster()])
    one, two = (kbert.load_pretrained(tmp_path / name).get_weights() for name in ("one", "two"))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)
    one, two = (tmp_path / name / "records" for name in ("one", "two"))
    assert {path.name: path.read_bytes() for path in one.iterdir()} == {
        path.name: path.read_bytes() for path in two.iterdir()
    }


def test_a_directory_that_the_first_refuses_ends_all_with_its_reason(tmp_path):
    write_tiny_directory(tmp_path / "init")
    write_table(tmp_path / "train.csv", sentences(48))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("years of work")
    arguments = (
        *as_flags(train=tmp_path / "train.csv", dev=0.1, source=tmp_path / "init"),
        *as_flags(steps=6, sequence_length=9, output=tmp_path / "run", strategy="multiworker"),
    )
    workers = [start("-m", "kbert", "finetune", "classification", *arguments, TF_CONFIG=config) for config in cluster()]
    for worker in workers:
        _, errors = worker.communicate(timeout=600)
        assert worker.returncode == 1 and "other files than a run's" in errors and "Traceback" not in errors, errors
    assert [entry.name for entry in (tmp_path / "run").iterdir()] == ["thesis.tex"]


WORKER = """
import json, os, sys, time
import kbert.training.workers as workers
from kbert.training.hardware import choose_hardware

fault, index = sys.argv[1], json.loads(os.environ["TF_CONFIG"])["task"]["index"]
if fault == "absent":
    workers.START_SECONDS = 10
    if index == 1:
        sys.exit()
hardware = choose_hardware("multiworker")
hardware.wait_for_all()
if fault == "refused" and index == 0:
    hardware.wait_for_all("runs/tiny holds a finished run")
    raise ValueError("runs/tiny holds a finished run")
if fault in ("killed 0", "killed 1") and index == int(fault[-1]):
    os.kill(os.getpid(), 9)
hardware.wait_for_all()
"""


@pytest.mark.parametrize(
    "fault, survivor, message",
    [
        ("killed 0", 1, "LostWorker: This run lost contact with .*Start the same command on all workers again"),
        ("killed 1", 0, "LostWorker: This run lost contact with worker 1"),
        ("refused", 1, "SetupError: Worker 0 stopped the run: runs/tiny holds a finished run"),
        ("absent", 0, "LostWorker: Expected all workers.*These do not answer: 127.0.0.1:"),
    ],
)
def test_a_worker_that_is_lost_ends_the_others(tmp_path, fault, survivor, message):
    (tmp_path / "worker.py").write_text(WORKER)
    processes = [start(tmp_path / "worker.py", fault, TF_CONFIG=config) for config in cluster()]
    _, errors = processes[survivor].communicate(timeout=600)
    processes[1 - survivor].communicate(timeout=600)
    assert processes[survivor].returncode == 1
    assert re.search(message, errors), errors[-3000:]


TRAINING = """
import json, os, sys
from helpers import tiny_pretraining as tiny
from kbert.training.hardware import choose_hardware
from kbert.cli import run_command

output, kill_at = sys.argv[1], int(sys.argv[2])

def main():
    hardware = choose_hardware("multiworker")
    with hardware.scope():
        model = tiny.compiled_model(num_layers=1, hidden_dropout=0.0, attention_dropout=0.0)
    is_killed = kill_at and not hardware.is_chief
    callbacks = [tiny.dies_at(kill_at)] if is_killed else []
    tiny.train(model, tiny.make_dataset, tiny.STEPS, output, window=tiny.WINDOW, callbacks=callbacks)
    if hardware.is_chief:
        tiny.np.savez(os.path.join(output, "weights.npz"), *model.get_weights())

run_command(main, [])
"""


def test_a_worker_killed_in_training_ends_the_other_and_the_same_command_continues(tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish([start(tmp_path / "train.py", whole, 0, TF_CONFIG=config) for config in cluster()])
    survivor, victim = [start(tmp_path / "train.py", killed, 6, TF_CONFIG=config) for config in cluster()]
    victim.communicate(timeout=600)
    assert victim.returncode == -9
    _, errors = survivor.communicate(timeout=600)  # TensorFlow's own limit is an hour
    assert survivor.returncode == 1 and "Traceback" not in errors, errors[-3000:]
    assert re.search("error: This run lost contact with worker 1.*Start the same command on all workers again", errors)
    assert (killed / "checkpoints" / "step-0000000004").is_dir() and not (killed / "weights.npz").exists()
    finish([start(tmp_path / "train.py", killed, 0, TF_CONFIG=config) for config in cluster()])
    with np.load(whole / "weights.npz") as expected, np.load(killed / "weights.npz") as found:
        for name in expected.files:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-7)
