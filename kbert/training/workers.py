"""The workers of a run on several machines: how long they wait, and what worker 0 decides for all."""

import contextlib
import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kbert.errors import UserError
from kbert.files import parse_json

if TYPE_CHECKING:
    import tensorflow as tf


START_SECONDS = 300  # TensorFlow's own limit is an hour
SILENCE_SECONDS = 20
_MESSAGE_BYTES = 2000
_SIGNS = ("Collective ops is aborted", "CoordinationService", "stopped sending heartbeats", "Connection reset by peer")


class LostWorker(UserError, RuntimeError):
    """Another worker of this run ended, or cannot be reached."""


def check_tf_config(text: str | None) -> tuple[dict, dict]:
    """The cluster of a TF_CONFIG and this process' task in it; a ValueError where they are absent or malformed."""
    example = '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
    expected = (
        f"choose_hardware: strategy multiworker needs TF_CONFIG in the environment of every worker, as {example}."
    )
    if not text:
        raise ValueError(f"{expected} Received: none")
    try:
        config = parse_json(text, "TF_CONFIG")
        workers, task = config["cluster"]["worker"], config["task"]
        kind, index = task["type"], int(task["index"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{expected} Received: {text!r} ({type(error).__name__}: {error})") from error
    if not isinstance(workers, list) or not all(isinstance(w, str) and ":" in w for w in workers):
        raise ValueError(f'{expected} `cluster.worker` must list "host:port" strings. Received: {workers!r}')
    sizes = {"worker": len(workers), "chief": len(config["cluster"].get("chief", ()))}
    if not 0 <= index < sizes.get(kind, 0):
        raise ValueError(f"{expected} `task` must be one of the cluster's. Received: {task!r} of {config['cluster']!r}")
    return config["cluster"], task


def addresses_of(cluster: dict) -> list[str]:
    """The "host:port" of every process that trains."""
    return [address for job in ("chief", "worker") for address in cluster.get(job, ())]


def await_workers(cluster: dict, task: dict) -> None:
    """Waits until every worker of the cluster has started.

    TensorFlow waits too, but for an hour, without reacting to signals and without naming the missing workers.
    """
    addresses = addresses_of(cluster)
    own = cluster[task["type"]][int(task["index"])]
    absent = [address for address in addresses if address != own]
    deadline = time.monotonic() + START_SECONDS
    with _listen(int(own.rsplit(":", 1)[1])):
        while absent := [address for address in absent if not _answers(address)]:
            if time.monotonic() > deadline:
                raise LostWorker(
                    f"Expected all workers of TF_CONFIG to start within {START_SECONDS} seconds. These do not answer: "
                    f"{', '.join(absent)}. Start the same command on all workers."
                )
            time.sleep(0.2)


def _listen(port: int) -> socket.socket:
    """A server that accepts connections without answering, until TensorFlow's own replaces it."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _answers(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def message_of_first(strategy: "tf.distribute.Strategy", message: str) -> str:
    """The message of worker 0 on every worker, after all have called it."""
    import tensorflow as tf

    encoded = message.encode()[:_MESSAGE_BYTES]
    letters = np.zeros(_MESSAGE_BYTES, "int32")
    letters[: len(encoded)] = list(encoded)

    def of_first():
        is_first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
        return tf.where(is_first, letters, tf.zeros_like(letters))

    @tf.function
    def total():
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(of_first), axis=None)

    return bytes(int(letter) for letter in total().numpy() if letter).decode(errors="ignore")


@contextlib.contextmanager
def named_losses() -> Iterator[None]:
    """Turns TensorFlow's errors about a lost worker into a `LostWorker` whose message names the worker."""
    try:
        yield
    except Exception as error:
        if not _is_loss(error):
            raise
        tasks = sorted(set(re.findall(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)", str(error))) - {_own_task()})
        who = " and ".join(f"{job} {task}" for job, task in tasks) or "another worker"
        raise LostWorker(
            f"This run lost contact with {who}, which ended, froze or cannot be reached; its own messages say why. "
            "Start the same command on all workers again: they resume from the last checkpoint."
        ) from error


def _own_task() -> tuple:
    task = parse_json(os.environ.get("TF_CONFIG") or "{}", "TF_CONFIG").get("task", {})
    return task.get("type"), str(task.get("index"))


def _is_loss(error: Exception) -> bool:
    if "tensorflow" not in sys.modules:
        return False
    import tensorflow as tf

    return isinstance(error, tf.errors.OpError) and any(sign in str(error) for sign in _SIGNS)
