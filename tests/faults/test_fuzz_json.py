"""Damaged JSON, 2,000 times: a value, or a ValueError that names the file."""

import pytest
from helpers.fuzz import check_reader

from kbert.files import read_json, to_json

SOUND = [
    to_json({"vocabulary_size": 30522, "labels": ["a", "b"], "deep": {"of": [1.5, -2, None, True]}, "text": "ä\n"}),
    to_json({"names": {str(i): {"shape": [i, 2], "dtype": "float32"} for i in range(50)}}),
]


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])
def test_damaged_json(tmp_path, count):
    found = check_reader(read_json, tmp_path / "config.json", [text.encode() for text in SOUND], count)
    assert found["read"] > 0 and found["refused"] > count / 2
