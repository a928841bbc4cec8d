"""The runs that the pictures show: a minute or two each; six for the quickstart, a quarter of an hour for questions."""

import pathlib
import subprocess
import sys

from screenshots.pictures import ROOT

_SHORT = "{q}/corpus.txt --vocabulary {q}/vocab.txt --size tiny --steps 400 --batch-size 64 --sequence-length 64 "
_SHORT += "--warmup-steps 40 --dropout 0 --held-out 0.03"
_LIBRARIES = "--label library --batch-size 16 --sequence-length 32"
RUNS = {  # folder: command and its arguments, besides --output; q is the quickstart's folder
    "quickstart": "quickstart",
    "rate-too-high": f"pretrain {_SHORT} --learning-rate 5e-2",
    "rate-too-low": f"pretrain {_SHORT} --learning-rate 2e-5",
    "overfitting": "finetune classification --source {q}/pretrained --train {q}/train.csv --dev {q}/test.csv "
    f"{_LIBRARIES} --epochs 8 --learning-rate 3e-4",
    # The test's sentences are more: they are learned from here, and the others are dev.
    "healthy": "finetune classification --source {encoder} --train {q}/test.csv --dev {q}/train.csv "
    f"{_LIBRARIES} --epochs 4 --learning-rate 5e-5",
    "sst2": "finetune glue --name SST-2 --train {data}/glue --dev {data}/glue --source {encoder} --steps 180 "
    "--batch-size 16 --sequence-length 64 --evaluate-every 90",
    "entities": "finetune tagging --train {data}/conll2003/eng.testa --dev 0.1 --context sentence --source {encoder} "
    "--steps 240 --batch-size 16 --sequence-length 64 --learning-rate 3e-4 --evaluate-every 120",
    "questions": "finetune span --train {data}/squad/dev-v1.1.json --dev 0.03 --source {encoder} --steps 600 "
    "--batch-size 12 --sequence-length 128 --doc-stride 64 --learning-rate 1e-4 --evaluate-every 300",
    "probes": "inspect --source {encoder} --data {data}/conll2003/eng.train --dev {data}/conll2003/eng.testa "
    '--columns {{"pos":1,"tags":-1}} --log-dir {runs}/probes-logs',
}
_DONE = ("metrics.json", "figures.json")  # one of them is written last


def runs_of(*pictures) -> set[str]:
    """The runs that pictures show, by what their kinds say of them, and those that these begin with."""
    words = [str(word) for picture in pictures for word in _flat(picture)]
    needed = {word.split("/")[0].removesuffix("-logs") for word in words} & set(RUNS)
    return needed | ({"quickstart"} if any("{q}" in RUNS[name] for name in needed) else set())


def _flat(value):
    if not isinstance(value, str | dict | list | tuple):
        return []
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, dict) else value
    return [word for one in values for word in _flat(one)]


def make_runs(directory: pathlib.Path, encoder: str, data: pathlib.Path, names: set[str]) -> None:
    """Makes those of the named runs that are not there; one that was broken off resumes."""
    places = {"q": directory / "quickstart", "encoder": encoder, "data": data, "runs": directory}
    for name, command in RUNS.items():
        if name not in names:
            continue
        output = directory / name
        if any((output / one).is_file() for one in _DONE):
            continue
        words = [part.format(**places) for part in command.split()]
        print(f"{name}: {words[0]}", flush=True)
        program = [str(ROOT / "recipes/quickstart.py")] if words == ["quickstart"] else ["-m", "kbert", *words]
        subprocess.run([sys.executable, *program, "--output", str(output)], check=True)
