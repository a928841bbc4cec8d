"""The files of SQuAD's official evaluation: predictions.json, n-best lists and null odds."""

import pathlib

from kbert.files import write_json
from kbert.tasks.span.questions import Questions


def write_squad_files(directory, questions: Questions, answers, odds, n_best) -> None:
    """Writes ``predictions.json``, ``null_odds.json`` and ``nbest.json`` to a directory.

    They hold {id: answer}, "" for none; {id: number}; and {id: [{"text", "probability"}, …]}, best first.
    ``evaluate-v2.0.py dev.json predictions.json`` (for 1.1 its own script) scores them; the threshold has already been
    applied. With ``--na-prob-file null_odds.json`` it also searches for the best threshold. Then give
    ``--na-prob-thresh`` with the threshold of the run: its default is 1.0, but odds are differences of logits.

    Args:
        odds: floats [questions], ``null_score - score``.
        n_best: (texts [questions, k], probabilities [questions, k]), "" and 0 for unused entries.
    """
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    lists = [
        [{"text": str(t), "probability": float(p)} for t, p in zip(*entries, strict=True) if t or p]
        for entries in zip(*n_best, strict=True)
    ]
    files = {
        "predictions.json": [str(answer) for answer in answers],
        "null_odds.json": [float(value) for value in odds],
        "nbest.json": lists,
    }
    for name, values in files.items():
        write_json(directory / name, dict(zip(questions.ids, values, strict=True)))
