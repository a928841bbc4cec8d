"""How a pair of sentences and its label came about, in sentences."""


def describe_steps(drawn, pair, size: int, short_rate: float, label: str | None) -> list[str]:
    """The steps of `kbert.pretraining.sentence_pairs` for one pair, as they happened.

    `label` is the requested one; None: a coin decided.
    """
    max_content_tokens, target, is_random = size - 3, drawn.ranges.target, drawn.table.is_random
    length = (
        "The length of the pairs is drawn once for a document, so that the model also sees short rows: with "
        f"probability {1 - short_rate:g} it is {max_content_tokens}, and with probability {short_rate:g} a number from "
        f"2 to {max_content_tokens}. Here it is {target} tokens."
    )
    steps = [
        f"A row has {size} tokens: {max_content_tokens} for the pair, besides [CLS] and two [SEP].",
        length,
    ]
    who = "The coin says" if label is None else "You chose"
    first, second = pair["first"], pair["second"]
    chunk = _chunk(drawn, target)
    more = "the document ends" if chunk == len(drawn.sentences[0]) else "there are enough tokens"
    steps.append(f"Sentences are taken from the document until {more}: {_numbers(range(chunk))}.")
    if chunk == 1:
        steps.append("A gets this sentence.")
    else:
        steps.append(f"A gets {_numbers(first)} of these: after how many sentences it ends is drawn.")
    where = "the document itself" if second["document"] == 0 else "the other document"
    if not is_random:
        steps.append(f"{who} IsNext: B gets the rest, {_numbers(second['sentences'])}.")
    elif chunk == 1:
        steps.append(
            "There is no rest that could be B, so the pair is NotNext: B begins at a random place of "
            f"{where} and takes {_numbers(second['sentences'])}."
        )
    else:
        steps.append(
            f"{who} NotNext: B begins at a random place of {where} and takes {_numbers(second['sentences'])}, "
            "up to the length that is wanted. The rest of the sentences begins the next pair."
        )
    front, back = (len(pair["dropped"][side]) for side in ("front", "back"))
    if front + back:
        steps.append(
            f"Together they have {_tokens(front + back)} too many. Again and again the longer of the two loses one, "
            f"at the front or at the back by the toss of a coin: {front} at the front, {back} at the back."
        )
    else:
        steps.append("Both fit: nothing is truncated.")
    return steps


def _chunk(drawn, target):
    """How many sentences of the document were gathered."""
    total = 0
    for number, length in enumerate(drawn.pool.sentence_lengths.numpy()[: len(drawn.sentences[0])].tolist(), start=1):
        total += length
        if total >= target:
            return number
    return len(drawn.sentences[0])


def _numbers(sentences):
    sentences = list(sentences)
    if len(sentences) == 1:
        return f"sentence {sentences[0]}"
    return f"sentences {sentences[0]} to {sentences[-1]}"


def _tokens(count):
    return f"{count} token" if count == 1 else f"{count} tokens"
