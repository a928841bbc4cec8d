"""The figures of kbert's own models on the pages are those of the files: of results/, and of the models' own.

docs/results.md and docs/long-texts.md are made from results/ (tests/experiments); here are the other copies.
"""

import json
import re

import numpy as np
import pytest
from helpers.paths import ROOT

from kbert.files import read_json

FIGURES = {  # page → figures that it has, between other characters than digits
    "README.md": """
        {tiny[scores][STS-B]:.1f} {tiny[scores][NER]:.1f} {tiny[random][STS-B]:.1f} {tiny[random][NER]:.1f}
        {all_mini[mlm_accuracy]:.1f} {mini[scores][NER]:.1f} {gpu[minutes]:.0f} {sentiment}""",
    "docs/results.md": """
        {tiny[all_steps]:,} {mini[all_steps]:,} {mini[steps]:,} {gpu[steps]:,} {tiny[constant][MRPC]:.1f}
        {random[STS-B][mean]:.1f} {random[NER][mean]:.1f}""",
    "docs/fine-tuning.md": """
        {tiny[grid][NER 0.0001 6]:.1f} {tiny[grid][NER 0.0003 6]:.1f} {tiny[grid][NER 0.001 6]:.1f}
        {tiny[grid][STS-B 0.0001 6]:.1f} {tiny[grid][STS-B 0.0003 6]:.1f} {tiny[grid][STS-B 0.001 6]:.1f}
        {tiny[constant][MRPC]:.1f} {tiny[grid][MRPC 0.0003 6]:.1f} {tiny[grid][MRPC 0.001 3]:.1f}
        {mini[grid][NER 0.0001 3]:.1f} {mini[grid][NER 0.0003 3]:.1f} {mini[grid][NER 0.001 3]:.1f}""",
    "docs/reading-runs.md": """
        {plateau[mlm_cross_entropy]:.1f} {after[mlm_cross_entropy]:.1f}
        {plateau[mlm_accuracy]:.0f} {after[mlm_accuracy]:.0f} {first[mlm_accuracy]:.1f}""",
    "docs/pretraining.md": """
        {plateau[step]:,} {plateau[tokens]:.0f} {plateau[minutes]:.0f} {after_growing[nsp_accuracy]:.1f}""",
    "docs/size-and-time.md": """
        {shards[tokens]:.0f} {shards[hours]:.1f} {shards[val_mlm_accuracy]:.1f}
        {all_tokens:.0f} {all_hours:.1f} {all_tiny[mlm_accuracy]:.1f}
        {mini[tokens]:.0f} {mini[hours]:.1f} {mini[mlm_accuracy]:.1f}
        {all_mini[mlm_accuracy]:.1f} {gpu[minutes]:.0f}""",
    "docs/embeddings.md": "{embeddings}",
    "docs/distillation.md": "{distillation}",
    "saved_models/kbert-tiny/README.md": """
        {all_tiny[mlm_accuracy]:.1f} {all_tiny[masks]:,} {all_tiny[mlm_cross_entropy]:.2f}
        {all_tiny[nsp_accuracy]:.1f} {all_tiny[pairs]:,} {plateau[step]:,}""",
    "saved_models/kbert-mini/README.md": """
        {all_mini[mlm_accuracy]:.1f} {all_mini[masks]:,} {all_mini[mlm_cross_entropy]:.2f}
        {all_mini[nsp_accuracy]:.1f} {all_mini[pairs]:,}""",
}


def percent(metrics):
    """Accuracies times 100."""
    return {name: value * 100 if name.endswith("accuracy") else value for name, value in metrics.items()}


def pretraining(made_by, curve):
    """The metrics of a finished run, with million tokens and hours."""
    return percent(made_by["metrics"]) | {"tokens": curve[-1]["tokens"] / 1e6, "hours": curve[-1]["hours"]}


def window(curve, step):
    """The scores at a step of a run."""
    [found] = [one for one in curve if one["step"] == step]
    return percent(found) | {"tokens": found["tokens"] / 1e6, "minutes": 60 * found["hours"], "hours": found["hours"]}


def finetuning(name):
    """Scores of a model and of random weights, and of every setting that was tried."""
    result = read_json(ROOT / "results" / f"finetuning-{name}.json")["rows"]
    rows = {row["name"]: row["scores"] for row in result}

    def each(row, key):
        return {column: score[key] for column, score in rows[row].items()}

    grid = {
        f"{column} {one['options']['learning_rate']} {one['options']['epochs']}": one["value"]
        for column, score in rows[name].items()
        for one in score["grid"]
    }
    return {
        "scores": each(name, "mean"),
        "random": each("random weights", "mean"),
        "constant": each("most frequent answer", "mean"),
        "grid": grid,
        "all_steps": result[0]["pretrained"]["steps"],
    }


@pytest.fixture(scope="module")
def values():
    manifests, curves = {}, {}
    for name in ("tiny", "mini"):
        folder = ROOT / "saved_models" / f"kbert-{name}"
        manifests[name] = read_json(folder / "model" / "kbert.json")
        for line in map(json.loads, (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()):
            curves.setdefault(line["run"], []).append(line)
    last, gpu = manifests["tiny"]["made_by"], manifests["mini"]["made_by"]
    mini = gpu["inputs"]["init"]["made_by"]
    runs = {
        "first": pretraining(last["inputs"]["init"]["made_by"], curves["tiny"]),
        "last": pretraining(last, curves["tiny-annealed"]),
        "mini": pretraining(mini, curves["mini"]),
        "gpu": pretraining(gpu, curves["mini-h200"]),
    }
    [shards] = read_json(ROOT / "results" / "pretraining-shards-of-250000.json")["runs"]
    embeddings = read_json(ROOT / "results" / "embeddings.json")["rows"].values()
    distillation = read_json(ROOT / "results" / "distillation.json")["tasks"].values()
    scores = [np.mean(score) for task in distillation for score in task.values() if isinstance(score, float | list)]
    [random] = [row for row in read_json(ROOT / "results/pretraining.json")["rows"] if row["name"] == "random weights"]
    card = (ROOT / "saved_models/kbert-mini-sentiment/README.md").read_text(encoding="utf-8")
    every = {name: read_json(ROOT / "results" / f"held-out-kbert-{name}.json") for name in ("tiny", "mini")}
    return runs | {
        **{f"all_{name}": percent(scores) for name, scores in every.items()},
        "tiny": runs["last"] | finetuning("kbert-tiny"),
        "mini": runs["mini"] | finetuning("kbert-mini"),
        "random": random["scores"],
        "sentiment": re.search(r"\*\*([\d.]+)%\*\*", card).group(1),
        "embeddings": " ".join(f"{100 * scores['spearman']:.1f}" for scores in embeddings),
        "distillation": " ".join(f"{100 * score:.1f}" for score in scores),
        "all_tokens": runs["first"]["tokens"] + runs["last"]["tokens"],
        "all_hours": runs["first"]["hours"] + runs["last"]["hours"],
        "shards": window(shards["points"], 10_000),
        "plateau": window(curves["tiny"], 6_600),
        "after": window(curves["tiny"], 7_400),
        "after_growing": window(curves["mini"], 100),
    }


@pytest.mark.parametrize("page", FIGURES)
def test_the_pages_have_the_figures_of_the_files(page, values):
    text = (ROOT / page).read_text(encoding="utf-8")
    figures = FIGURES[page].format(**values).split()
    missing = [figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?!\d|[.,]\d)", text)]
    assert not missing, f"{page} does not have these figures of the files"


def test_the_readme_has_the_speeds_of_the_performance_page():
    """Where a peer is faster, too."""
    page, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/performance.md", "README.md"))
    row = re.search(r"^\| mini, 32 × 128, bfloat16, AMX \| ([\d, |]+) \|", page, re.MULTILINE)[1]
    kbert, hub, torch, equal = (int(cell.replace(",", "")) for cell in row.split(" | "))
    training = f"| 1 | {torch / kbert:.2f} ({equal / kbert:.2f} at equal work) | {hub / kbert:.2f} |"
    found = re.search(
        r"encodes faster\*\*: ([\d,]+) tokens/s, against ([\d,]+) for kbert and ([\d,]+) for keras-hub", page
    )
    torch, kbert, hub = (int(number.replace(",", "")) for number in found.groups())
    encoding = f"| 1 | {torch / kbert:.2f} | {hub / kbert:.2f} |"
    for name, cells in (("training", training), ("encoding", encoding)):
        assert f"| [{name} speed](docs/performance.md#{name}): mini, bfloat16, AMX {cells}" in readme
