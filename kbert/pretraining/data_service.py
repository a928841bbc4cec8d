"""Training batches made on another machine, by a tf.data service: for a trainer whose own processor is too slow.

The trainer sends the graph of its dataset to the service, which reads the records, draws pairs and masks, and sends
batches back. Each trainer asks for its own, so that batch n stays batch n whatever is restarted.
"""

import logging
import socket

import tensorflow as tf

_LOGGER = logging.getLogger("kbert")
_GIVE_UP_MS = 60_000


class DataService:
    """A dispatcher and its one worker in this process; the batches of one worker come in order.

    Args:
        port: of the dispatcher; the worker has the next one. 0: any free ports.
        host: this machine's name or address, as trainers reach it; None: what the system calls it.

    Attributes:
        address: "host:port", for `pretraining_dataset(data_service=...)` and ``kbert pretrain --data-service``.

    Raises:
        RuntimeError: a port is taken.
    """

    def __init__(self, port: int = 0, host: str | None = None):
        import tensorflow_text  # noqa: F401 - registers the operations that a trainer's graph may have

        service = tf.data.experimental.service
        host = host or socket.getfqdn()
        try:
            self._dispatcher = service.DispatchServer(service.DispatcherConfig(port=port, protocol="grpc"))
            dispatcher = self._dispatcher.target.removeprefix("grpc://")
            worker = {"port": port + 1 if port else 0, "worker_address": f"{host}:{port + 1 if port else '%port%'}"}
            self._worker = service.WorkerServer(
                service.WorkerConfig(dispatcher, protocol="grpc", dispatcher_timeout_ms=_GIVE_UP_MS, **worker)
            )
        except (RuntimeError, tf.errors.OpError) as error:
            ports = f"ports {port} and {port + 1}" if port else "any free port"
            raise RuntimeError(f"DataService: expected to listen on {ports}. Received: {error}") from error
        self.address = f"{host}:{dispatcher.rsplit(':', 1)[1]}"

    def join(self) -> None:
        """Serves until the process ends."""
        self._worker.join()


def from_service(dataset: tf.data.Dataset, address: str) -> tf.data.Dataset:
    """The same batches, in the same order, made by the service at `address`."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f'Expected the address of a data service as "host:port". Received: {address!r}')
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=20).close()
    except OSError as error:  # TensorFlow would try for an hour
        raise ConnectionError(
            f"Expected a data service (kbert serve-data) at {address}. Received: {error.strerror or error}"
        ) from error
    return dataset.apply(
        # OFF: the one worker makes the whole dataset, rather than a fraction of it.
        tf.data.experimental.service.distribute(
            tf.data.experimental.service.ShardingPolicy.OFF, f"grpc://{address}", target_workers="ANY"
        )
    )
