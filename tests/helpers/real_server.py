"""A real TensorFlow Serving for the tests of serving: one that runs, or one that Docker starts.

    PYTHONPATH=.:tests python -m helpers.real_server DIRECTORY

writes the models that the tests ask, and DIRECTORY/models.config, with which a server serves them. docs/serving.md has
the commands.
"""

import contextlib
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from helpers.served_models import KINDS, ON_THE_PAGE, make_pipeline

_LOADED = b'"state": "AVAILABLE"'
_PATIENCE = 300  # seconds until all models are loaded
_CONFIG = 'config {{ name: "{name}" base_path: "{path}" model_platform: "tensorflow" }}\n'


@dataclasses.dataclass
class RealServer:
    """The URL of a server, as `ModelServer` has it; what was asked of it nobody knows."""

    rest: str
    requests: None = None


def write_models(directory: pathlib.Path) -> None:
    """Exports the tests' models, whose weights are the same every time, and writes models.config."""
    import kbert

    directory = directory.absolute()
    for kind in KINDS:
        kbert.export(make_pipeline(kind)[0], directory / kind, version=1, made_by={"recipe": "a test"})
    names = dict.fromkeys(KINDS) | ON_THE_PAGE
    configs = "".join(_CONFIG.format(name=name, path=directory / (kind or name)) for name, kind in names.items())
    (directory / "models.config").write_text(f"model_config_list {{\n{configs}}}\n")


@contextlib.contextmanager
def real_server():
    """The server of $KBERT_MODEL_SERVER (HOST:REST_PORT), one of the image $KBERT_MODEL_SERVER_IMAGE, or None."""
    address, image = (os.environ.get(f"KBERT_MODEL_SERVER{end}") for end in ("", "_IMAGE"))
    with contextlib.ExitStack() as stack:
        if not address and image:
            address = stack.enter_context(_container(image))
        if not address:
            yield None
            return
        server = RealServer(f"http://{address}")
        _wait(server.rest, [*KINDS, *ON_THE_PAGE])
        yield server


@contextlib.contextmanager
def _container(image):
    """The address of a container that serves the models."""
    with tempfile.TemporaryDirectory(prefix="kbert-served-") as place:
        directory = pathlib.Path(place)
        write_models(directory)
        directory.chmod(0o755)
        port = ["-p", "127.0.0.1::8501"]
        volume = ["-v", f"{directory}:{directory}:ro"]
        config = f"--model_config_file={directory}/models.config"
        container = _docker("run", "-d", "--rm", *port, *volume, image, config)
        try:
            yield "127.0.0.1:" + _docker("port", container, "8501").rpartition(":")[2]
        finally:
            _docker("stop", container)


def _docker(*arguments):
    return subprocess.run(["docker", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _wait(rest, names):
    """Until every model is loaded; an error names the one that is not."""
    deadline = time.monotonic() + _PATIENCE
    for name in names:
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                with urllib.request.urlopen(f"{rest}/v1/models/{name}", timeout=10) as answer:
                    if _LOADED in answer.read():
                        break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{rest}: the model {name} is not available after {_PATIENCE} s")
            time.sleep(0.5)


if __name__ == "__main__":
    write_models(pathlib.Path(sys.argv[1]))
