"""Every kind of tiny pipeline, exported once a session: the tests of serving all look at these."""

import dataclasses
import pathlib

import pytest
from helpers.served_models import KINDS, make_pipeline

import kbert


@dataclasses.dataclass(frozen=True)
class Served:
    """An exported pipeline: what was exported, where to, and what to ask it."""

    kind: str
    path: pathlib.Path
    pipeline: kbert.Pipeline
    columns: dict  # of each input, the same number of rows


@pytest.fixture(scope="session")
def served_models(tmp_path_factory):
    """kind → `Served`; directory/<kind>/1 as a server's model_base_path wants it."""
    directory = tmp_path_factory.mktemp("saved_models")
    found = {}
    for kind in KINDS:
        pipeline, columns = make_pipeline(kind)
        path = kbert.export(pipeline, directory / kind, metrics={"accuracy": 0.5}, made_by={"recipe": "a test"})
        found[kind] = Served(kind, path, pipeline, columns)
    return found


@pytest.fixture(params=list(KINDS))
def served(request, served_models):
    """Each of `served_models` in turn."""
    return served_models[request.param]
