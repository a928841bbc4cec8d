"""What several files of fine-tunings share."""

import pytest
from helpers.tiny_directory import write_tiny_directory


@pytest.fixture(scope="module")
def init(tmp_path_factory):
    """The kbert directory of a tiny pre-trained model."""
    return write_tiny_directory(tmp_path_factory.mktemp("home") / "init")
