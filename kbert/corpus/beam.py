"""Apache Beam: a pipeline on the runner of the user's choice, and the directory that its workers share."""

import contextlib
import hashlib
import io
import json
import logging
import os
import pathlib
import re
import shutil
import socket
import threading
import types
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, BinaryIO

from kbert.aliases import PathLike
from kbert.errors import SetupError
from kbert.files import atomic_file

_LOGGER = logging.getLogger("kbert")
_ERROR = "error"  # prefix of the files in which workers report errors of the user's input
_PROBE = "probe"
_DIGEST = hashlib.sha256().digest_size
_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Fault|Disk|Input)): (.*)$", re.MULTILINE)
_loaded, _loading = {}, threading.Lock()


def run_beam(runner: str, flags: Iterable[str], build: Callable[[Any], Any]) -> None:
    """Runs the Apache Beam pipeline that `build` applies its transforms to, and waits for its end.

    `flags` are Beam's own flags of the command line, for a runner that it knows, such as ``FlinkRunner``.
    """
    beam = import_beam()
    from apache_beam.options.pipeline_options import PipelineOptions

    # Beam's own switch, called DirectRunner, first tries to download and start Prism, a runner in Go.
    name = "FnApiRunner" if runner == "DirectRunner" else runner
    options, said = PipelineOptions(list(flags)), io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options.get_all_options()
    except SystemExit:  # its parser has printed the usage of hundreds of flags, and then what is wrong
        reason = said.getvalue().strip().rpartition("error: ")[2]
        raise ValueError(
            f"Expected flags that Apache Beam takes. Received: {' '.join(flags)}. Beam: {reason}"
        ) from None
    try:
        pipeline = beam.Pipeline(runner=name, options=options)
    except (ValueError, ImportError) as error:
        raise ValueError(f"Expected a runner that Apache Beam knows. Received: {runner!r}. Beam: {error}") from None
    build(pipeline)
    try:
        state = pipeline.run().wait_until_finish()
    except Exception as error:
        raise SetupError(f"{runner}: the pipeline failed: {_last_error(error)}") from error
    if state not in (None, "DONE"):
        raise SetupError(f"{runner}: expected the pipeline to end as DONE. Received: {state}. See the runner's log.")


def import_beam() -> types.ModuleType:
    try:
        import apache_beam
    except ImportError as error:
        raise SetupError(
            f"A runner needs Apache Beam, which is not installed ({error}): pip install apache-beam, in a virtual "
            "environment of its own."
        ) from None
    return apache_beam


def _last_error(error):
    """The innermost error in the traceback text that runners put into their messages."""
    messages = _RAISED.findall(str(error))
    text = messages[-1][1] if messages else str(error) or repr(error)
    return re.sub(r" ?\[while running .*$", "", text.strip().split("\n")[-1])


def load_once(key: Hashable, load: Callable[[], Any]) -> Any:
    """The value of ``load()``, made once in each process, however many threads ask for it; the last key's is kept."""
    with _loading:
        if key not in _loaded:
            _loaded.clear()
            _loaded[key] = load()
        return _loaded[key]


class SharedDirectory:
    """A directory that the starting program and all workers see under the same path.

    Files appear whole or not at all, under names that depend on their content alone. So a runner may give a piece of
    work to two workers, or to another one after a failure, and a program that is started again finds what is done.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        self.probe = uuid.uuid4().hex

    def __truediv__(self, name):
        return pathlib.Path(self.path) / name

    def open(self) -> None:
        """Makes the directory, for workers to `check`; errors that workers reported before are forgotten."""
        pathlib.Path(self.path).mkdir(parents=True, exist_ok=True)
        for path in pathlib.Path(self.path).glob(f"{_ERROR}-*"):
            path.unlink()
        self.write(_PROBE, self.probe.encode())

    def check(self) -> None:
        """Raises RuntimeError, in a worker, unless this is the directory that the program has opened."""
        try:
            seen = self.read(_PROBE).decode()
        except OSError:
            seen = None
        if seen != self.probe:
            raise SetupError(
                f"Expected a directory that all workers share. Received: {self.path}, which the worker on "
                f"{socket.gethostname()} does not see. Give another as --shared."
            )

    def exists(self, name: str) -> bool:
        return (self / name).is_file()

    def read(self, name: str) -> bytes:
        """What `write` wrote; OSError if the content is another."""
        content = (self / name).read_bytes()
        digest, content = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            raise OSError(f"{self / name} is damaged. Delete {self.path} and start again.")
        return content

    def read_part(self, name: str, start: int, size: int) -> bytes:
        """`size` bytes of a file that was written with `writing`."""
        with open(self / name, "rb") as file:
            file.seek(start)
            return file.read(size)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A binary file that appears when the block ends."""
        with atomic_file(self / name, "wb") as file:
            yield file

    def write(self, name: str, content: bytes) -> None:
        with self.writing(name) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def read_json(self, name: str) -> Any:
        return json.loads(self.read(name))

    def write_json(self, name: str, value: Any) -> None:
        self.write(name, json.dumps(value).encode())

    @contextlib.contextmanager
    def reporting(self, number: int) -> Iterator[None]:
        """Reports a ValueError in the block, of a piece of work, to the starting program: trying again would not help.

        Of several errors that of the first piece is raised.
        """
        try:
            yield
        except ValueError as error:
            self.write_json(f"{_ERROR}-{number:08d}", str(error))

    def failed(self) -> bool:
        """Whether a worker has reported an error."""
        return any(pathlib.Path(self.path).glob(f"{_ERROR}-*"))

    def raise_reported(self, kind: type[Exception]) -> None:
        """Raises the first error that workers reported, as an error of this kind."""
        if reported := sorted(pathlib.Path(self.path).glob(f"{_ERROR}-*")):
            raise kind(self.read_json(reported[0].name))

    def delete(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def delete_shared(directory: PathLike) -> None:
    """Deletes every `SharedDirectory` in a directory, and then the directory itself if nothing else is in it."""
    directory = pathlib.Path(directory)
    for path in directory.glob("*"):
        if (path / _PROBE).is_file():
            shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        directory.rmdir()
