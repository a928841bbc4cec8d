"""Answers without what a server fills them up with.

Shapes: B rows, M places of a padded output.
"""

from kbert.serving.serving_error import ServingError

_COUNTS = ("n_best_count", "count")  # outputs int [B]: how much of each row is real


def trim_answers(answers, url=""):
    """The outputs of a model of kbert, each row cut to what is real of it.

    Outputs have the same width for every row, so that a server can batch. ``count`` says how much of a row of the
    others is real: how many masks, words, entities or tokens; ``n_best_count`` says it of the outputs ``n_best_…``.

    Args:
        answers: dict of output → list of B; an output [B, M, …] is a list of lists.
        url: of the server, for messages.

    Returns:
        dict of the same outputs; the counts themselves stay.

    Raises:
        ServingError: a count that is no number of entries.

    Example::

        trim_answers({"tokens": [[["capital", "heart"], ["", ""]]], "count": [1]})["tokens"]  # [[["capital", "heart"]]]
    """
    return {name: _trimmed(name, values, answers, url) for name, values in answers.items()}


def _trimmed(name, values, answers, url):
    counter = _COUNTS[0] if name.startswith("n_best") else _COUNTS[1]
    if name in _COUNTS or counter not in answers or not all(isinstance(row, list) for row in values):
        return values
    counts = answers[counter]
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise ServingError(f"{url}: expected numbers of entries as {counter!r}. Received: {counts!r:.200}")
    return [row[:count] for row, count in zip(values, counts, strict=True)]
