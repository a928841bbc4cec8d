"""Removes the padding from a server's answers.

Shapes: B rows, M entries of a padded output.
"""

from kbert.serving.serving_error import ServingError

_COUNTS = ("n_best_count", "count")  # outputs int [B]: how many entries of each row are real


def trim_answers(answers, url=""):
    """The outputs of a kbert model without padding.

    Outputs have the same width for every row, so that a server can batch. ``count`` is the number of real entries of a
    row (masks, words, entities or tokens); ``n_best_count`` is that of the outputs ``n_best_…``.

    Args:
        answers: dict of output → list of B; an output [B, M, …] is a list of lists.
        url: of the server, for messages.

    Returns:
        dict of the same outputs; the counts themselves stay.

    Raises:
        ServingError: a count that is not a possible number of entries.

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
