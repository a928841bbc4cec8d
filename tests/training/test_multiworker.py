"""Two processes on this machine train as one device does; minutes on a busy machine, so marked slow."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
from helpers.paths import ROOT

pytestmark = pytest.mark.slow


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def start(strategy, output, **environment):
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "helpers" / "replicas_run.py"), strategy, str(output)],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"} | environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(processes):
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors


def test_two_workers_are_one_device(tmp_path):
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    cluster = [
        json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}) for index in (0, 1)
    ]
    (tmp_path / "one").mkdir()
    finish([start("one", tmp_path / "one")])
    finish([start("multiworker", tmp_path, TF_CONFIG=config) for config in cluster])
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
