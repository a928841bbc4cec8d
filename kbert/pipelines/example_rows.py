"""Example requests for model cards and warm-up: short and long rows of texts and of pairs of texts."""

SENTENCE = "The committee met on Tuesday in Geneva, and Ada Lovelace spoke about engines that compute. "
LONG_TEXT = SENTENCE * 12

_TEXTS = {
    ("text",): [{"text": "A charming and often affecting journey."}, {"text": LONG_TEXT}],
    ("text", "text_pair"): [
        {"text": "How old are you?", "text_pair": "I am 27 years old."},
        {"text": LONG_TEXT, "text_pair": SENTENCE},
    ],
}


def example_rows(names) -> list[dict[str, str]]:
    """Rows for a pipeline with these inputs, dicts of column → string.

    Raises:
        ValueError: inputs of a task that has to define its own examples (`TaskPipeline.example_rows`).
    """
    if tuple(names) not in _TEXTS:
        raise ValueError(f"export: expected one of the inputs {sorted(_TEXTS)}. Received: {tuple(names)}")
    return _TEXTS[tuple(names)]
