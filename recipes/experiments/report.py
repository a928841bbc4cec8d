"""Scores over seeds, the verdict whether a difference is the paper's, and the files of a table."""

import csv
import dataclasses
import datetime
import io
import math
import pathlib
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from experiments.plot import result_plot
from kbert.files import atomic_file, write_json
from kbert.versions import versions

_STEPS = "steps"
_MASKED = ("masked-LM perplexity", "masked-LM accuracy")
_LEFT_TO_RIGHT = ("left-to-right perplexity", "left-to-right accuracy")


def result_table(result: dict) -> str:
    """A Markdown table with a line for each row, then the settings that were chosen and a sentence for each comparison.

    The paper's figures stand beside the scores. Columns without any score are left out, and so is the most frequent
    answer where all its scores are 0. Left-to-right models, whose
    scores on held-out text cannot be compared with those of masked ones, have columns of their own. What is equal for
    all pre-trainings stands in a sentence.
    """
    rows, paper_rows = result["rows"], result["paper_rows"]
    names = [row["name"] if is_trained(row["pretrained"]) else f"{row['name']} ({NOT_TRAINED})" for row in rows]
    pretrained = [_pretrained(row["pretrained"]) for row in rows]
    figures = [row["paper"] for row in rows] + list(paper_rows.values())
    columns = {"": names + [f"*paper: {name}*" for name in paper_rows]}
    common = []

    def add(column, cells, form):
        columns[column] = cells + [""] * len(paper_rows)
        if any(column in row for row in figures):
            columns[f"{column}, paper"] = [format(row[column], form) if column in row else "" for row in figures]

    for column in (_STEPS, *_MASKED, *_LEFT_TO_RIGHT):
        cells = [row.get(column, "") for row in pretrained]
        if any(cells) and len({row.get(column) for row in pretrained if row}) == 1:
            common.append(f"{column} {max(cells)}")
        elif any(cells):
            add(column, cells, "g")
    for column in result["columns"]:
        add(column, [_score(row["scores"].get(column)) for row in rows], ".1f")
    lines = [_line(columns), "|---" * len(columns) + "|"]
    lines += [_line(cells) for cells in zip(*columns.values(), strict=True) if {*cells[1:]} - {"", "0.0"}]
    sentences = [f"Every pre-training: {', '.join(common)}."] if common else []
    sentences += [*_chosen(result), *result["sentences"]]
    bullets = (f"- {sentence}".replace("- + ", "- \\+ ") for sentence in sentences)  # not a list in a list
    return "\n".join([*lines, "", *bullets]) + "\n"


def comparison_table(result: dict) -> str:
    """The table of a comparison with random weights, and a paragraph on how it was made."""
    settings, row = result["settings"], result["rows"][0]
    grid = (f"{name.replace('_', ' ')} {', '.join(map(str, values))}" for name, values in settings["grid"].items())
    chosen = {"dev": "on dev", "train": "on a fifth of the training examples"}[settings["choose_on"]]
    minutes = [f"pre-training {row['pretrained']['minutes']:.0f}"] if row["pretrained"] else []
    minutes += [f"{name} {score['minutes']:.1f}" for name, score in row["scores"].items() if "minutes" in score]
    paragraph = (
        f"Tried with the first seed, and chosen {chosen}: {'; '.join(grid)}. Seeds "
        f"{', '.join(map(str, settings['seeds']))}. {describe_options(settings['finetuning']).capitalize()}. "
        f"Examples for training and dev: {describe_examples(result)}. Minutes: {', '.join(minutes)}. "
        f"{result['date']}; {describe_versions(result)}."
    )
    return f"{result_table(result)}\n{paragraph}\n"


def describe_examples(result: dict) -> str:
    """How many examples each column was trained and scored on."""
    examples = {name: n for name, n in result["settings"]["examples"].items() if name in result["columns"]}
    return ", ".join(f"{name} {n['train']:,} and {n['dev']:,}" for name, n in examples.items())


def describe_versions(result: dict) -> str:
    """The processor and the versions of a result."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"{result['settings']['processor']}, {result['settings']['cores']} cores; {versions}"


def result_csv(result: dict) -> str:
    """A line for each row and column: scores of every seed, mean, deviation, the paper's figure and the verdict."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["row", "steps", "column", "settings", "mean", "deviation", "seeds", "paper", "reference", "verdict"]
    )
    for row in result["rows"]:
        for column, score in row["scores"].items():
            verdict = row.get("verdicts", {}).get(column, {}).get("word", "")
            seeds = " ".join(f"{value:.4f}" for value in score["values"])
            deviation = "" if score["deviation"] is None else f"{score['deviation']:.4f}"
            writer.writerow(
                [
                    row["name"],
                    row["pretrained"].get("steps", ""),
                    column,
                    describe_options(score.get("options") or {k: score[k] for k in ("learning_rate",) if k in score}),
                    f"{score['mean']:.4f}",
                    deviation,
                    seeds,
                    row["paper"].get(column, ""),
                    row.get("reference", ""),
                    verdict,
                ]
            )
    return text.getvalue()


def describe_options(options: dict) -> str:
    """Settings of a fine-tuning in words.

    Example::

        describe_options({"learning_rate": 1e-4, "bias_correction": True})  # "learning rate 0.0001, bias correction"
    """
    parts = []
    for name, value in options.items():
        words = name.replace("_", " ")
        parts.append(f"no {words}" if value is False else words if value is True else f"{words} {_plain(value)}")
    return ", ".join(parts)


def _plain(value):
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value


def _chosen(result):
    """A sentence for each row on the settings that its scores were chosen with, where several were tried."""
    tried = [name for name, values in result["settings"].get("grid", {}).items() if len(values) > 1]
    for row in result["rows"]:
        columns = {}
        for column, score in row["scores"].items():
            options = {name: score["options"][name] for name in tried} if score.get("options") else {}
            columns.setdefault(describe_options(options), []).append(column)
        settings = [f"{options} for {', '.join(names)}" for options, names in columns.items() if options]
        if settings:
            yield f"Chosen for {row['name']}: {'; '.join(settings)}."


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def _pretrained(found):
    """The steps and held-out scores of a pre-training, by their columns."""
    perplexity, accuracy = _LEFT_TO_RIGHT if found.get("left_to_right") else _MASKED
    cells = {_STEPS: f"{found['steps']:,}"} if found else {}
    if "mlm_perplexity" in found:
        cells[perplexity] = f"{found['mlm_perplexity']:.1f}"
    if "mlm_accuracy" in found:
        cells[accuracy] = f"{100 * found['mlm_accuracy']:.1f} %"
    return cells


def _score(score):
    if score is None:
        return ""
    return f"{score['mean']:.1f}" + ("" if score["deviation"] is None else f" ± {score['deviation']:.1f}")


SEEN = "seen"
TIE = "tie"
REVERSED = "reversed"
ONE_SEED = "one seed"
NOT_TRAINED = "not trained"
HIGHER, LOWER = "higher", "lower"  # where the paper says nothing
UNEQUAL = "unequal"  # where the paper's figures are equal
_PLATEAU = 0.05  # runs that had not left the plateau were up to 0.04 above that accuracy (docs/pretraining.md)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The comparison of a row with its reference in one column.

    Attributes:
        word: ``seen``: the difference has the paper's direction; ``reversed``: the opposite one; ``higher`` or
            ``lower``: the paper has no figures; ``unequal``: the paper's figures are equal, and these differ; ``tie``:
            the means differ by no more than both standard deviations together; ``one seed``: there are no deviations,
            and nothing is concluded; ``not trained``: one of the two pre-trainings has not left the plateau
            (`is_trained`).
        difference: of the means.
        spread: the sum of both standard deviations, or None.
        paper: the difference of the paper's figures, or only its sign as ±1; None: the paper has none.
    """

    word: str
    difference: float
    spread: float | None
    paper: float | None


def accuracy_without_context(
    unigram: float, mask_token_rate: float, keep_rate: float, random_token_rate: float
) -> float:
    """The masked-LM accuracy of a model that knows how frequent tokens are and how they are masked, and nothing else.

    It answers [MASK] with the most frequent token, and any other token with itself or with the most frequent one.

    Args:
        unigram: the accuracy of always predicting the most frequent token.
        mask_token_rate, keep_rate, random_token_rate: what becomes of masked tokens, see `kbert.pretrain`.
    """
    return mask_token_rate * unigram + max(keep_rate, (keep_rate + random_token_rate) * unigram)


def is_trained(pretrained: Mapping[str, float]) -> bool:
    """Whether a pre-training has learned something of the context: a row of a table that has not is no result.

    Args:
        pretrained: held-out scores with ``mlm_accuracy`` and ``accuracy_without_context``; without the latter, as of
            random weights, nothing is known against it.
    """
    least = pretrained.get("accuracy_without_context")
    return least is None or pretrained["mlm_accuracy"] > least + _PLATEAU


def judge(
    values: Sequence[float], reference: Sequence[float], paper: float | None = None, trained: bool = True
) -> Verdict:
    """Compares the scores of the seeds of a row with those of its reference.

    Args:
        paper: see `Verdict`.
        trained: whether both pre-trainings have left the plateau.
    """
    difference = statistics.mean(values) - statistics.mean(reference)
    if min(len(values), len(reference)) < 2:
        return Verdict(ONE_SEED, difference, None, paper)
    spread = statistics.stdev(values) + statistics.stdev(reference)
    if not trained:
        word = NOT_TRAINED
    elif abs(difference) <= spread:
        word = TIE
    elif paper is None:
        word = HIGHER if difference > 0 else LOWER
    elif paper == 0:
        word = UNEQUAL
    else:
        word = SEEN if math.copysign(1, difference) == math.copysign(1, paper) else REVERSED
    return Verdict(word, difference, spread, paper)


def sentence(name: str, reference: str, verdicts: dict[str, Verdict]) -> str:
    """What each column says of a row, grouped by the verdict: the difference ± the sum of both deviations."""
    if any(verdict.word == NOT_TRAINED for verdict in verdicts.values()):
        return f"{name} against {reference}. Not trained, no verdict."
    columns = {}
    for column, verdict in verdicts.items():
        spread = "" if verdict.spread is None else f" ± {verdict.spread:.1f}"
        columns.setdefault(verdict.word, []).append(f"{column} {verdict.difference:+.1f}{spread}")
    meanings = {
        SEEN: "Same direction as in the paper",
        REVERSED: "Opposite direction to the paper",
        UNEQUAL: "Unequal, although the paper's figures are equal",
        ONE_SEED: "One seed, no verdict",
        HIGHER: "Higher, no figure in the paper",
        LOWER: "Lower, no figure in the paper",
        TIE: "Tie",
    }
    parts = (f"{meanings[word]}: {', '.join(names)}." for word, names in columns.items())
    return " ".join([f"{name} against {reference}.", *parts])


def summary(values: Sequence[float]) -> dict:
    """The scores of all seeds with mean and standard deviation, which one seed has not."""
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"values": list(values), "mean": statistics.mean(values), "deviation": deviation}


def when_and_with_what(records: Iterable[Mapping]) -> dict:
    """Date and versions of runs, with ranges where they differ; those of now without any run.

    Args:
        records: of each run ``recorded``, an ISO date, and ``versions``.
    """
    records = list(records) or [{"recorded": datetime.datetime.now(datetime.UTC).isoformat(), "versions": versions()}]
    days = sorted({record["recorded"][:10] for record in records})
    names = dict.fromkeys(name for record in records for name in record["versions"])
    found = {name: {record["versions"].get(name) for record in records} - {None} for name in names}
    return {
        "date": days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}",
        "versions": {name: ", ".join(sorted(map(str, one))) for name, one in found.items()},
    }


def judge_row(entry: dict, reference: Mapping, paper: Callable[[str], float | None]) -> str:
    """Adds to a row of a result its verdicts against another row, in the columns that both have.

    Args:
        entry: the row, a dict with ``name``, ``pretrained`` and ``scores``.
        paper: function of a column → the paper's difference, see `Verdict`.

    Returns:
        The verdicts as a sentence.
    """
    trained = is_trained(entry["pretrained"]) and is_trained(reference["pretrained"])
    verdicts = {
        column: judge(score["values"], reference["scores"][column]["values"], paper(column), trained)
        for column, score in entry["scores"].items()
        if column in reference["scores"]
    }
    entry |= {"reference": reference["name"], "verdicts": {column: vars(one) for column, one in verdicts.items()}}
    return sentence(entry["name"], reference["name"], verdicts)


def write_result(result: dict, directory) -> None:
    """Writes ``NAME.json``, ``NAME.md``, ``NAME.csv`` and ``NAME.svg``, where NAME is the result's ``table``."""
    directory, name = pathlib.Path(directory), result["table"]
    directory.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".md", result_table(result)), (".csv", result_csv(result)), (".svg", result_plot(result))):
        with atomic_file(directory / f"{name}{suffix}") as file:
            file.write(text)
    write_json(directory / f"{name}.json", result)
