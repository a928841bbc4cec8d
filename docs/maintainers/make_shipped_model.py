"""Packs a pre-training as one of kbert's own models: saved_models/NAME/ with weights, an exported version and a card.

    PYTHONPATH=.:recipes/experiments python docs/maintainers/make_shipped_model.py --runs runs/tiny \
        --records runs/records --name kbert-tiny

--runs: of kbert pretrain, finished or not, or RUN@STEP; of several the last one is packed, and the others are
those that it continued. saved_models/NAME/ receives model/ (a model directory, weights in float16), 1/ (a SavedModel:
fill-mask and next sentence), curves.svg, history.jsonl (the curves' figures) and README.md. What was there is replaced.
make_results.py writes the table of results/finetuning-NAME.json into README.md.
"""

import argparse
import json
import pathlib
import shutil
import tempfile

from compare_pretraining import LOSS, SCORES, curves_table, draw, read_points

from kbert.files import read_json

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "docs/maintainers/templates/model_card.md"
PROMPTS = (
    "Paris is the [MASK] of France.",
    "He was born in London and died in [MASK].",
    "She opened the [MASK] and went into the room.",
    "The battle took place in [MASK] 1815.",
    "He shook his [MASK] and said nothing.",
    "The river flows into the [MASK] sea.",
    "The album was released in [MASK] and reached number one.",
    "They had two sons and a [MASK].",
)
LINES = 400  # of history.jsonl


def ship(runs, records, name, *, directory=ROOT / "saved_models", precision=None):
    """Writes saved_models/NAME and returns its path.

    Args:
        runs: paths, or RUN@STEP; the last one is packed.
        records: what they were trained on, the output of prepare_records.py.
        name: of the model.
        directory: receives the folder.
        precision: of the exported version, as of `kbert.export`.
    """
    import kbert
    from kbert.weights.provenance import describe_maker
    from kbert.weights.source import local_source

    model = kbert.load_pretrained(runs[-1])
    makers = {_name(run): describe_maker(local_source(run)) or {} for run in runs}
    pipeline, made_by = kbert.build_pipeline(model), makers[_name(runs[-1])]
    points = {_name(run): _points(run) for run in runs}
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=directory) as place:
        partial = pathlib.Path(place) / name
        kbert.export(pipeline, partial, precision=precision)
        kbert.save_pretrained(model, partial / "model", storage_dtype="float16", made_by=made_by)
        draw(points).savefig(partial / "curves.svg")
        (partial / "history.jsonl").write_text("".join(_lines(points)), encoding="utf-8")
        card = _card(name, pipeline, points, makers, records)
        (partial / "README.md").write_text(card, encoding="utf-8")
        shutil.rmtree(directory / name, ignore_errors=True)
        partial.rename(directory / name)
    return directory / name


def megabytes(path) -> float:
    """The size of all files below a path."""
    return sum(file.stat().st_size for file in pathlib.Path(path).rglob("*") if file.is_file()) / 1e6


def _points(run):
    """The curves of a run, or of RUN@STEP up to that step."""
    path, at, step = str(run).partition("@")
    return [point for point in read_points(pathlib.Path(path)) if not at or point["step"] <= int(step)]


def _name(run):
    return pathlib.Path(str(run).partition("@")[0]).name


def _lines(points):
    """Every evaluation, and so many of the other windows that there are few lines."""
    each = [(name, point) for name, curve in points.items() for point in curve]
    every = -(-len(each) // LINES)
    for number, (name, point) in enumerate(each):
        if number % every == 0 or LOSS in point:
            rounded = {key: round(value, 4) for key, value in point.items()}
            yield json.dumps({"run": name} | rounded | {"tokens": round(point["tokens"])}) + "\n"


def _card(name, pipeline, points, makers, records):
    model, config = pipeline.model, pipeline.model.config
    text, ends = read_json(pathlib.Path(records) / "metrics.json"), [curve[-1] for curve in points.values()]
    filled = pipeline.predict(list(PROMPTS), verbose=0)["tokens"]
    return TEMPLATE.read_text(encoding="utf-8").format(
        name=name,
        origin=_origin(list(makers.values())[0]),
        layers=config.num_layers,
        width=config.hidden_dim,
        heads=config.num_heads,
        parameters=model.count_params(),
        vocabulary=config.vocabulary_size,
        documents=text["documents"],
        sentences=text["sentences"],
        text_tokens=text["tokens"] / 1e6,
        steps=sum(end["step"] for end in ends),
        devices=_devices(makers.values()),
        earlier=_earlier(list(makers.values())[0]),
        tokens=sum(end["tokens"] for end in ends) / 1e6,
        hours=sum(end["hours"] for end in ends),
        settings="\n".join(f"- **Settings** of {run}: {_settings_line(made_by)}." for run, made_by in makers.items()),
        baselines="\n".join(_baselines(run, made_by) for run, made_by in makers.items() if made_by.get("metrics")),
        curves=curves_table(points),
        scores=_held_out(list(makers.values())[-1], list(points.values())[-1]),
        answers="\n".join(f"| {one} | {', '.join(tokens[0])} |" for one, tokens in zip(PROMPTS, filled, strict=True)),
        length=pipeline.preprocessor.sequence_length,
        positions="" if config.position_embedding == "sinusoidal" else _later_positions(list(makers.values())[-1]),
    )


def _origin(made_by):
    """What the first run started from: new weights, or one of these models, grown."""
    if (other := _init(made_by)) is None:
        return "random weights"
    return f"[{other}](../{other}/README.md), which was widened and deepened to this size,"


def _earlier(made_by):
    """Which steps the table of results counts besides those of the card's runs."""
    other = _init(made_by)
    return f" (without those of {other}, which are counted too in the table of fine-tunings)" if other else ""


def _devices(makers):
    """What the runs were trained on, such as "a CPU and one NVIDIA H200"."""
    found = dict.fromkeys(made_by.get("settings", {}).get("device") for made_by in makers)
    return " and ".join("a CPU" if device is None else f"one {device}" for device in found)


def _later_positions(made_by):
    """What the model knows of positions behind those of its rows."""
    accuracy = made_by.get("metrics", {}).get("mlm_accuracy_512")
    if accuracy is None:
        return ", so later positions are untrained"
    only = f"{100 * accuracy:.0f} % of the masked tokens"
    return f", except in its last updates, of 512 tokens. In rows of 512 it predicts only {only}"


def _init(made_by):
    """The name of the model that a run began as; None: new weights."""
    init = made_by.get("inputs", {}).get("init")
    return init and init["name"].removesuffix("/model")


def _baselines(run, made_by):
    """What scores on a run's held-out sample are to be compared with; each run has its own sample."""
    found = made_by["metrics"]["unigram"]
    scores = f"loss {found['cross_entropy']:.2f}, accuracy {100 * found['accuracy']:.1f} %"
    if "nsp_accuracy" in found:
        scores += f", and the more frequent next-sentence label {100 * found['nsp_accuracy']:.1f} %"
    return f"- **Baselines** on the held-out sample of {run}: token frequencies {scores}."


def _settings_line(made_by):
    parts = []
    for key, value in made_by.get("settings", {}).items():
        if isinstance(value, str | int | float) and value is not False:
            name = key.replace("_", " ")
            shown = f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else value
            parts.append(name if value is True else f"{name} {shown}")
    return ", ".join(parts) or "unknown"


def _held_out(made_by, points):
    """The scores of the finished run; of RUN@STEP, which has none, those of its last evaluation."""
    last = [point for point in points if LOSS in point][-1]
    found = made_by.get("metrics") or {name: last.get(f"val_{name}") for name in SCORES}
    parts = [
        f"{title} {factor * found[score]:.{1 if factor > 1 else 2}f}"
        for score, (title, factor) in SCORES.items()
        if found.get(score) is not None
    ]
    return ", ".join(parts)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", required=True, metavar="RUN")
    parser.add_argument("--records", required=True, type=pathlib.Path, metavar="DIR")
    parser.add_argument("--name", required=True)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), help="of the SavedModel (default: float32)")
    arguments = parser.parse_args(argv)
    path = ship(arguments.runs, arguments.records, arguments.name, precision=arguments.precision)
    print(
        f"{path}: {megabytes(path):.1f} MB; all of kbert-*: {sum(map(megabytes, path.parent.glob('kbert-*'))):.1f} MB"
    )


if __name__ == "__main__":
    main()
