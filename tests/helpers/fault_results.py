"""What a finished run leaves that a person or a program relies on, without speeds and times."""

import dataclasses
import json
import re

from kbert.weights.files.safetensors_file import SafetensorsFile


@dataclasses.dataclass(frozen=True)
class Results:
    """The names of its files (but TensorBoard's), the weights' bytes, the metrics, the history."""

    files: list
    weights: dict
    metrics: dict
    history: list

    @classmethod
    def of(cls, output):
        """Reads the results of the run in `output`. JSON as other programs read it: NaN is an AssertionError."""
        names = sorted(str(path.relative_to(output)) for path in output.rglob("*"))
        if not (output / "model").is_dir():  # of predictions
            answers = [name for name in names if not name.endswith(".metrics.json")]  # which has times
            return cls(names, {name: (output / name).read_bytes() for name in answers}, {}, [])
        file = SafetensorsFile(output / "model" / "model.safetensors")
        weights = {name: file.read(name).tobytes() for name in file.tensors}
        lines = (output / "history.jsonl").read_text().splitlines()
        return cls(
            [name for name in names if not name.startswith("logs/")],
            weights,
            _without_times(_parse((output / "metrics.json").read_text())),
            [_without_times(_parse(line)) for line in lines],
        )

    def check(self, reference, history=True):
        """Raises AssertionError if anything differs; history: whether it must be the same too."""
        different = [
            name
            for name in {**self.weights, **reference.weights}
            if self.weights.get(name) != reference.weights.get(name)
        ]
        assert not different, f"other weights: {different}"
        assert self.metrics == reference.metrics, f"other metrics: {self.metrics}, not {reference.metrics}"
        assert self.files == reference.files, f"files: {set(self.files) ^ set(reference.files)}"
        if history:
            assert self.history == reference.history, f"history: {self.history}, not {reference.history}"


def _parse(text):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON: {text}")

    return json.loads(text, parse_constant=refuse)


def _without_times(value):
    if isinstance(value, list):
        return [_without_times(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    timed = re.compile("per_second|seconds|minutes")
    return {name: _without_times(inner) for name, inner in value.items() if not timed.search(name)}
