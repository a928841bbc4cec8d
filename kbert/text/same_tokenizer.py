"""Whether two tokenizers give equal ids, without TensorFlow."""

from collections.abc import Sequence


def resolve_settings(settings: dict) -> dict:
    """`BertTokenizer.settings` without defaults; tokenizers of one vocabulary are equal if these agree."""
    strip_accents = settings["strip_accents"]
    return {**settings, "strip_accents": settings["lowercase"] if strip_accents is None else strip_accents}


def check_same_tokenizer(name: str, own: tuple[Sequence[str], dict], other: tuple[Sequence[str], dict]) -> None:
    """Raises ValueError unless texts have the tokenizer of the model that is trained on them.

    `own` and `other` are (vocabulary, `BertTokenizer.settings`) of the model and of the texts.
    `name` is for the message, such as "pretrain: the records".
    """
    (own_tokens, made), (tokens, received) = own, other
    if list(own_tokens) != list(tokens):
        raise ValueError(
            f"{name} must have the vocabulary of `init`, whose embeddings are in its order. Received: "
            f"{len(tokens):,} tokens, which are not the {len(own_tokens):,} of `init`"
        )
    made, received = resolve_settings(made), resolve_settings(received)
    if different := [f"{one}={received[one]!r} instead of {made[one]!r}" for one in made if made[one] != received[one]]:
        raise ValueError(f"{name} must have the tokenizer settings of `init`. Received: {', '.join(different)}")
