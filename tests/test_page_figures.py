"""The figures of kbert's own models on the pages are those of the files: of results/, and of the models' own.

docs/results.md and docs/long-texts.md are made from results/ (tests/experiments); here are the other copies.
"""

import json

import pytest
from helpers.paths import ROOT

from kbert.files import read_json

FIGURES = {  # page → what it says, in any number of lines
    "README.md": (
        "reaches a Spearman correlation of {tiny[scores][STS-B]:.1f} on STS-B and an F1 of {tiny[scores][NER]:.1f} on "
        "CoNLL-2003 entities; random weights reach {tiny[random][STS-B]:.1f} and {tiny[random][NER]:.1f}.",
        "was grown from it and trained for {mini[hours]:.0f} more hours",
    ),
    "docs/results.md": (
        "kbert-mini for {mini[hours]:.0f} further hours",
        "kbert-mini's {mini[all_steps]:,} steps are {tiny[all_steps]:,} of kbert-tiny, from which it was grown, and "
        "{mini[steps]:,} of its own",
        "the proportion of the more frequent label of MRPC ({tiny[constant][MRPC]:.1f} % of the dev examples",
        "reach {random[STS-B][mean]:.1f} ± {random[STS-B][deviation]:.1f} on STS-B and {random[NER][mean]:.1f} ± "
        "{random[NER][deviation]:.1f} on entities with these fine-tunings",
    ),
    "docs/maintainers/aims.md": (
        "**Next-sentence accuracy, kbert-tiny** ({all_tiny[nsp_accuracy]:.1f} %): on the sample that is scored in "
        "training (835 pairs) it reached {before_last[nsp_accuracy]:.1f} % after {first[steps]:,} steps at a "
        "constant rate, and {last_8000[val_nsp_accuracy]:.1f} % and {tiny[nsp_accuracy]:.1f} % after 8,000 and "
        "{last[steps]:,} more",
        "**Masked-LM accuracy, kbert-mini** ({all_mini[mlm_accuracy]:.1f} %; exactly {all_mini[mlm_accuracy]:.4f} % of "
        "{all_mini[masks]:,}, with a standard error of {all_mini[standard_error]:.2f} points: at the aim rather "
        "than above it; {mini[mlm_accuracy]:.1f} % of its sample)",
        "({sample[nsp_accuracy]:.1f} to {grown[nsp_accuracy]:.1f} % on its sample); from step 16,000 "
        "({mini_16000[val_nsp_accuracy]:.1f} %)",
        "it reached {mini_16000[val_mlm_accuracy]:.1f} % at step 16,000 and {mini_20000[val_mlm_accuracy]:.1f} % at "
        "step 20,000, after {mini_epochs:.2f} epochs",
        "**MRPC, kbert-tiny** ({tiny[scores][MRPC]:.1f} ± {tiny[deviations][MRPC]:.1f} % against "
        "{tiny[random][MRPC]:.1f} ± {tiny[random_deviations][MRPC]:.1f} %;",
        "score below the most frequent answer, {tiny[constant][MRPC]:.1f} %",
        "({tiny[grid][SST-2 0.001 6]:.1f} % with the first seed, {tiny[grid][SST-2 0.001 3]:.1f} % after 3 epochs)",
        "**MRPC and CoLA, kbert-mini** (MRPC {mini[scores][MRPC]:.1f} ± {mini[deviations][MRPC]:.1f} % against "
        "{mini[random][MRPC]:.1f} ± {mini[random_deviations][MRPC]:.1f} %, CoLA {mini[scores][CoLA]:.1f} ± "
        "{mini[deviations][CoLA]:.1f} against {mini[random][CoLA]:.1f} ± {mini[random_deviations][CoLA]:.1f})",
    ),
    "docs/fine-tuning.md": (
        "| kbert-tiny, entities, F1, 6 epochs | {tiny[grid][NER 0.0001 6]:.1f} | {tiny[grid][NER 0.0003 6]:.1f} | "
        "**{tiny[grid][NER 0.001 6]:.1f}** |",
        "| kbert-tiny, STS-B, Spearman correlation, 6 epochs | {tiny[grid][STS-B 0.0001 6]:.1f} | "
        "**{tiny[grid][STS-B 0.0003 6]:.1f}** | {tiny[grid][STS-B 0.001 6]:.1f} |",
        "| kbert-tiny, MRPC, accuracy (most frequent answer: {tiny[constant][MRPC]:.1f}) | | "
        "{tiny[grid][MRPC 0.0003 6]:.1f} (6 epochs) | **{tiny[grid][MRPC 0.001 3]:.1f}** (3 epochs) |",
        "| kbert-mini, entities, F1, 3 epochs | | **{mini[grid][NER 0.0003 3]:.1f}** | {mini[grid][NER 0.001 3]:.0f} |",
    ),
    "docs/reading-runs.md": (
        "the loss falls from {plateau[mlm_cross_entropy]:.1f} to {after[mlm_cross_entropy]:.1f} and the accuracy rises "
        "from {plateau[mlm_accuracy]:.0f} % to {after[mlm_accuracy]:.0f} %",
        "here to {first[mlm_accuracy]:.1f} % of the held-out masks",
    ),
    "docs/pretraining.md": (
        "left it at step {plateau[step]:,} ({plateau[tokens]:.0f} million tokens, {plateau[minutes]:.0f} minutes on "
        "one core",
        "recover within 100 steps to {after_growing[nsp_accuracy]:.1f} %",
    ),
    "docs/size-and-time.md": (
        "| {shards[tokens]:.0f} million | {shards[hours]:.1f} | {shards[val_mlm_accuracy]:.1f} % "
        "([figures](../results/pretraining-shards-of-250000.json)) |",
        "| {all_tokens:.0f} million | {all_hours:.1f} | {all_tiny[mlm_accuracy]:.1f} % |",
        "| {mini[tokens]:.0f} million more | {mini[hours]:.1f} more | {mini[mlm_accuracy]:.1f} % |",
    ),
    "docs/maintainers/kbert-models.md": (
        "{first[steps]:,} steps at a constant rate ({first[tokens]:.0f} million tokens, {first[minutes]:.0f} minutes",
        "then {last[steps]:,} steps in which the rate falls to 0 ({last[tokens]:.0f} million tokens, "
        "{last[minutes]:.0f} minutes). Its plateau ended after {plateau[tokens]:.0f} million tokens",
        "predicts {tiny[mlm_accuracy]:.1f} % of held-out masked tokens (loss {last[mlm_cross_entropy]:.2f}) and "
        "{tiny[nsp_accuracy]:.1f} % of held-out next sentences",
        "{parameters:.1f} million parameters) began as kbert-tiny and was trained for {mini[hours]:.1f} hours",
        "{mini[steps]:,} steps of 16 × 128 tokens, {mini[tokens]:.0f} million tokens",
        "| kbert-tiny | {sample[mlm_cross_entropy]:.2f} | {sample[mlm_accuracy]:.1f} % | "
        "{sample[nsp_accuracy]:.1f} % |",
        "| kbert-mini, right after growing | {grown[mlm_cross_entropy]:.2f} | {grown[mlm_accuracy]:.1f} % | "
        "{grown[nsp_accuracy]:.1f} % |",
        "| kbert-mini | {mini[mlm_cross_entropy]:.2f} | {mini[mlm_accuracy]:.1f} % | {mini[nsp_accuracy]:.1f} % |",
        "it passes kbert-tiny's masked-LM accuracy after {passed:.1f} hours",
        "{mini[tokens]:.0f} million tokens are {mini_epochs:.2f} epochs of its corpus",
    ),
    "docs/maintainers/pretraining-trials.md": (
        "{first[constant]:.1f} % of the pairs have the same label, in the red run's {last[constant]:.1f} %; the same "
        "weights reach {first[nsp_accuracy]:.1f} % of next sentences on the first and "
        "{before_last[nsp_accuracy]:.1f} % on the second",
    ),
    "saved_models/kbert-tiny/README.md": (
        "On all held-out documents: {all_tiny[mlm_accuracy]:.1f} % of {all_tiny[masks]:,} masked tokens, loss "
        "{all_tiny[mlm_cross_entropy]:.2f}; {all_tiny[nsp_accuracy]:.1f} % of {all_tiny[pairs]:,} next sentences.",
        "On training text the loss was {plateau[mlm_cross_entropy]:.1f}, and the plateau ended at step "
        "{plateau[step]:,} ({plateau[tokens]:.0f} million tokens)",
    ),
    "saved_models/kbert-mini/README.md": (
        "On all held-out documents: {all_mini[mlm_accuracy]:.1f} % of {all_mini[masks]:,} masked tokens, loss "
        "{all_mini[mlm_cross_entropy]:.2f}; {all_mini[nsp_accuracy]:.1f} % of {all_mini[pairs]:,} next sentences.",
    ),
}


def percent(metrics):
    """Accuracies times 100."""
    return {name: value * 100 if name.endswith("accuracy") else value for name, value in metrics.items()}


def pretraining(made_by, curve):
    """The metrics of a finished run, with million tokens, hours and the share of the more frequent label."""
    end, metrics = curve[-1], made_by["metrics"]
    share = 100 * metrics["unigram"]["nsp_accuracy"]
    return percent(metrics) | {"tokens": end["tokens"] / 1e6, "hours": end["hours"], "constant": share}


def window(curve, step):
    """The scores at a step of a run."""
    [found] = [one for one in curve if one["step"] == step]
    return percent(found) | {"tokens": found["tokens"] / 1e6, "minutes": 60 * found["hours"], "hours": found["hours"]}


def finetuning(name):
    """Scores and deviations of a model and of random weights, and the scores of every setting that was tried."""
    result = read_json(ROOT / "results" / f"finetuning-{name}.json")["rows"]
    rows = {row["name"]: row["scores"] for row in result}

    def each(row, key):
        return {column: score[key] for column, score in rows[row].items()}

    grid = {
        f"{column} {one['options']['learning_rate']} {one['options']['epochs']}": one["value"]
        for column, score in rows[name].items()
        for one in score["grid"]
    }
    random = "random weights"
    return {
        "scores": each(name, "mean"),
        "deviations": each(name, "deviation"),
        "random": each(random, "mean"),
        "random_deviations": each(random, "deviation"),
        "constant": each("most frequent answer", "mean"),
        "minutes_each": each(name, "minutes"),
        "grid": grid,
        "all_steps": result[0]["pretrained"]["steps"],
    }


@pytest.fixture(scope="module")
def values():
    manifests, curves = {}, {}
    for name in ("tiny", "mini"):
        folder = ROOT / "saved_models" / f"kbert-{name}"
        manifests[name] = read_json(folder / "model" / "manifest.json")
        for line in map(json.loads, (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()):
            curves.setdefault(line["run"], []).append(line)
    last, mini = manifests["tiny"]["made_by"], manifests["mini"]["made_by"]
    runs = {
        "first": pretraining(last["inputs"]["init"]["made_by"], curves["tiny"]),
        "last": pretraining(last, curves["tiny-annealed"]),
        "mini": pretraining(mini, curves["mini"]),
    }
    sample = percent(read_json(ROOT / "results" / "kbert-tiny-on-the-sample-of-kbert-mini.json")["before"])
    passed = [one["hours"] for one in curves["mini"] if 100 * one.get("val_mlm_accuracy", 0) > sample["mlm_accuracy"]]
    [shards] = read_json(ROOT / "results" / "pretraining-shards-of-250000.json")["runs"]
    corpus = read_json(ROOT / "results" / "records-8m.json")
    [random] = [row for row in read_json(ROOT / "results/pretraining.json")["rows"] if row["name"] == "random weights"]
    every = {name: read_json(ROOT / "results" / f"held-out-kbert-{name}.json") for name in ("tiny", "mini")}
    return runs | {
        **{f"all_{n}": percent(one) | {"standard_error": 100 * one["mlm_standard_error"]} for n, one in every.items()},
        "tiny": runs["last"] | finetuning("kbert-tiny") | {"tokens": sum(runs[n]["tokens"] for n in ("first", "last"))},
        "mini": runs["mini"] | finetuning("kbert-mini"),
        "before_last": percent(last["metrics"]["before"]),
        "grown": percent(mini["metrics"]["before"]),
        "sample": sample,
        "random": random["scores"],
        "passed": passed[0],
        "all_tokens": runs["first"]["tokens"] + runs["last"]["tokens"],
        "all_hours": runs["first"]["hours"] + runs["last"]["hours"],
        "parameters": manifests["mini"]["parameters"] / 1e6,
        "shards": window(shards["points"], 10_000),
        "plateau": window(curves["tiny"], 6_600),
        "after": window(curves["tiny"], 7_400),
        "after_growing": window(curves["mini"], 100),
        "last_8000": window(curves["tiny-annealed"], 8_000),
        **{f"mini_{step}": window(curves["mini"], step) for step in (16_000, 20_000)},
        "mini_epochs": 1e6 * runs["mini"]["tokens"] / corpus["tokens"],
    }


@pytest.mark.parametrize("page", FIGURES)
def test_the_pages_have_the_figures_of_the_files(page, values):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    wrong = [one for one in (figure.format(**values) for figure in FIGURES[page]) if one not in text]
    assert not wrong, f"{page} should say so, as the files do"
