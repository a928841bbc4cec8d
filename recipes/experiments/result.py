"""What tables of experiments have in common: scores over seeds, when and with what they were made, and their files."""

import datetime
import pathlib
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from experiments.plot import result_plot
from experiments.report import result_csv, result_table
from experiments.verdict import is_trained, judge, sentence
from kbert.files import atomic_file, write_json
from kbert.versions import versions


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
