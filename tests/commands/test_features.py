"""Features of tokens and words in files."""

import json

import numpy as np
import pytest
from helpers.run_recipe import as_flags, run_kbert
from helpers.tiny_directory import write_tiny_directory


@pytest.mark.parametrize("align", ["tokens", "words"])
@pytest.mark.usefixtures("eagerly")
def test_features_in_files(tmp_path, align):
    write_tiny_directory(tmp_path / "init")
    (tmp_path / "texts.txt").write_text("the good film .\r\n\nunly a " + "dull song " * 12)
    common = as_flags(
        source=tmp_path / "init", input=tmp_path / "texts.txt", layers=[-1, 0], align=align, sequence_length=16
    )
    run_kbert("features", *common, "--output", tmp_path / "f.jsonl")
    run_kbert("features", *common, "--output", tmp_path / "f.npz", "--batch-size", 2)
    rows = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text("utf-8").splitlines()]
    arrays = np.load(tmp_path / "f.npz")
    assert [row["linex_index"] for row in rows] == [0, 1, 2]
    for n, row in enumerate(rows):
        tokens = [one["token"] for one in row["features"]]
        assert tokens == arrays[f"tokens_{n}"].tolist()
        assert all([layer["index"] for layer in one["layers"]] == [-1, 0] for one in row["features"])
        values = np.array([[layer["values"] for layer in one["layers"]] for one in row["features"]])
        np.testing.assert_allclose(values.reshape(arrays[f"features_{n}"].shape), arrays[f"features_{n}"], atol=2e-5)
    # "unly" is two pieces, un ##ly; tokens have [CLS] and [SEP] beside them
    assert [len(row["features"]) for row in rows] == ([4, 0, 26] if align == "words" else [6, 2, 29])
    with pytest.raises(SystemExit):
        run_kbert("features", *common, "--output", tmp_path / "f.npz")
    with pytest.raises(SystemExit, match="Expected layers from -2 to 1"):
        run_kbert("features", *common, "--layers", 5, "--output", tmp_path / "g.npz")
    assert not (tmp_path / "g.npz").exists()
