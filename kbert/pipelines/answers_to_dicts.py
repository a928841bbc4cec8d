"""A pipeline's answers, a plain dict for each text: what is written to files.

Shapes: B batch, N labels, M masks, k tokens proposed.
"""

from collections.abc import Iterator
from typing import Any


def answers_to_dicts(pipeline, answers) -> Iterator[dict[str, Any]]:
    """Turns what ``pipeline.predict`` returned into rows of plain Python values.

    Args:
        pipeline: `kbert.Pipeline`.
        answers: dict of NumPy arrays, first dimension B.

    Yields:
        A dict for each of the B texts: classification ``label`` and ``probabilities`` (label → number), multiple
        choice ``choice`` (counted from 0) and ``probabilities`` (a list, 0 for what is no choice), regression
        ``score``, next sentence ``is_next``, spans ``answer``, ``score``, ``start``, ``end``, ``null_score`` and
        ``n_best`` (answers with their probabilities, best first), tagging ``words`` (a list of ``word``, ``tag`` and
        ``score``) or ``entities`` (of ``entity``, ``type``, ``start``, ``end`` and ``score``), fill-mask ``masks`` (for
        each [MASK] the proposed tokens with their probabilities, best first), an encoder's ``embedding`` (a list of
        numbers).

    Example::

        next(answers_to_dicts(pipeline, pipeline.predict(["fine"])))  # {"label": "good", "probabilities": {…}}
    """
    if "tokens" in answers:
        columns = (answers["tokens"], answers["probabilities"], answers["count"])
        for tokens, probabilities, count in zip(*columns, strict=True):  # [M, k], [M, k], []
            masks = zip(tokens[:count].tolist(), probabilities[:count].tolist(), strict=True)
            yield {"masks": [[{"token": t, "probability": p} for t, p in zip(*mask, strict=True)] for mask in masks]}
    elif "n_best_answers" in answers:
        single = [name for name in answers if not name.startswith("n_best")]
        columns = (answers["n_best_answers"], answers["n_best_scores"].tolist(), answers["n_best_count"])
        for i, (texts, shares, count) in enumerate(zip(*columns, strict=True)):
            entries = [{"answer": a, "probability": p} for a, p in zip(texts[:count], shares[:count], strict=True)]
            yield {name: answers[name][i : i + 1].tolist()[0] for name in single} | {"n_best": entries}
    elif "choice" in answers:
        for choice, probabilities in zip(answers["choice"].tolist(), answers["probabilities"].tolist(), strict=True):
            yield {"choice": choice, "probabilities": probabilities}
    elif "tags" in answers or "entities" in answers:
        yield from _tagging_rows(answers)
    elif "label" in answers:
        for label, probabilities in zip(answers["label"], answers["probabilities"].tolist(), strict=True):
            yield {"label": label, "probabilities": dict(zip(pipeline.answers.labels, probabilities, strict=True))}
    else:
        name = next(name for name in ("embedding", "is_next", "score") if name in answers)
        for value in answers[name].tolist():
            yield {name: value}


def _tagging_rows(answers):
    group = "words" if "tags" in answers else "entities"
    singular = {"words": "word", "tags": "tag", "entities": "entity", "types": "type", "scores": "score",
                "starts": "start", "ends": "end"}  # fmt: skip
    columns = {singular[name]: values.tolist() for name, values in answers.items() if name != "count"}
    for row, count in enumerate(answers["count"].tolist()):
        yield {group: [{name: values[row][n] for name, values in columns.items()} for n in range(count)]}
