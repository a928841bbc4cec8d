"""Requests to show and to warm a server up with: short and long rows of each kind of input."""

_SENTENCE = "The committee met on Tuesday in Geneva, and Ada Lovelace spoke about engines that compute. "
_LONG = _SENTENCE * 12

_TEXTS = {
    ("text",): [{"text": "A charming and often affecting journey."}, {"text": _LONG}],
    ("text", "text_pair"): [
        {"text": "How old are you?", "text_pair": "I am 27 years old."},
        {"text": _LONG, "text_pair": _SENTENCE},
    ],
    ("question", "context"): [
        {"question": "Where did the committee meet?", "context": _SENTENCE},
        {"question": "Who spoke about engines that compute?", "context": _LONG * 4},
    ],
    ("prompt", "choices"): [
        {"prompt": "She opened the door and", "choices": ["walked in.", "ate the door.", "was a door.", "sang blue."]},
        {"prompt": _LONG, "choices": [_SENTENCE, "walked in.", "sang blue.", "was a door."]},
    ],
}
_MASKED = [{"text": "Paris is the [MASK] of France."}, {"text": "[MASK] " + _LONG + "[MASK]"}]


def example_inputs(names, task=None):
    """Rows for a pipeline with these inputs, a list of dicts of column → string (choices: list of strings).

    Raises:
        ValueError: inputs that no pipeline of kbert has.
    """
    if task in ("masked_lm", "pretraining"):
        return _MASKED
    if tuple(names) not in _TEXTS:
        raise ValueError(f"export: expected one of the inputs {sorted(_TEXTS)}. Received: {tuple(names)}")
    return _TEXTS[tuple(names)]
