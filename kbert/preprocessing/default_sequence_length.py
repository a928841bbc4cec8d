"""How long a text is, in tokens, where nothing says so."""

DEFAULT_SEQUENCE_LENGTH = 128


def default_sequence_length(task: str, longest: int) -> int:
    """Tokens of a text for models of `task`, at most `longest`: 128, and for questions 384, as run_squad.py."""
    return min(384 if task == "span" else DEFAULT_SEQUENCE_LENGTH, longest)
