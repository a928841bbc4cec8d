"""Every kind of tiny pipeline, exported when it is first asked for: the tests of serving all look at these."""

import collections.abc
import dataclasses
import functools
import pathlib

import pytest
import tensorflow as tf
from helpers.c_api import compile_program
from helpers.model_server import ModelServer
from helpers.real_server import real_server
from helpers.served_models import EXPORTED, KINDS, ON_THE_PAGE, make_pipeline

import kbert
from kbert.serving.signatures import signatures


@dataclasses.dataclass(frozen=True)
class Served:
    """An exported pipeline: what was exported, where to, and what to ask it."""

    kind: str
    path: pathlib.Path
    pipeline: kbert.Pipeline
    columns: dict  # of each input, the same number of rows

    @functools.cached_property
    def loaded(self):
        """The SavedModel's signatures."""
        import tensorflow_text  # noqa: F401  registers the ops that a server links

        saved_model = tf.saved_model.load(str(self.path))
        object.__setattr__(self, "_saved_model", saved_model)  # the signatures do not keep it
        return saved_model.signatures

    @functools.cached_property
    def signatures(self):
        """What was exported, in Python: dict of name → `ServingSignature`."""
        return signatures(self.pipeline)


class ServedModels(collections.abc.Mapping):
    """kind → `Served`; directory/<kind>/1 as a server's model_base_path wants it."""

    def __init__(self, directory):
        self.directory, self._exported = directory, {}

    def __getitem__(self, kind):
        if kind not in self._exported:
            pipeline, columns = make_pipeline(kind)
            made_by = {"recipe": "a test"}
            path = kbert.export(pipeline, self.directory / kind, metrics={"accuracy": 0.5}, made_by=made_by)
            pipeline.run_eagerly = True  # `predict` is not traced anew for every shape of these small requests
            self._exported[kind] = Served(kind, path, pipeline, columns)
        return self._exported[kind]

    def __iter__(self):
        return iter(KINDS)

    def __len__(self):
        return len(KINDS)


@pytest.fixture(scope="session")
def served_models(tmp_path_factory):
    """kind → `Served`."""
    return ServedModels(tmp_path_factory.mktemp("saved_models"))


@pytest.fixture(scope="session", autouse=True)
def _load_once(served_models):
    """Whoever loads one of `served_models` gets the one that is loaded: nobody changes its files or weights."""
    load, loaded = tf.saved_model.load, {}

    def load_once(path, *arguments, **options):
        key = (str(path), repr(arguments), repr(options))
        if not str(path).startswith(f"{served_models.directory}/"):
            return load(path, *arguments, **options)
        if key not in loaded:
            loaded[key] = load(path, *arguments, **options)
        return loaded[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.saved_model, "load", load_once)
        yield


@pytest.fixture(params=EXPORTED)
def served(request, served_models):
    """Each of `served_models` in turn."""
    return served_models[request.param]


@pytest.fixture(scope="session")
def server(served_models):
    """What serves all of `served_models`: a real TensorFlow Serving where one is given, or the stand-in for one."""
    with real_server() as real:
        if real is not None:
            yield real
            return
    with ModelServer(served_models, ON_THE_PAGE) as running:
        yield running


@pytest.fixture
def stand_in(server):
    """The stand-in, which misbehaves on request."""
    if not isinstance(server, ModelServer):
        pytest.skip("a real server does not misbehave on request")
    yield server
    server.fault = None


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The path of the compiled program that serves without Python (helpers/c_api.py)."""
    return compile_program(tmp_path_factory.mktemp("capi"))
