"""Fragments of HTML and SVG for what no component of Gradio shows well. All texts and tokens are escaped here.

Shapes: L layers, A heads, S sequence.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

from kbert.inspection.charts import short
from kbert.inspection.markdown import percent
from kbert.inspection.views.embeddings import InputRow
from kbert.inspection.views.masking import MaskedText, MaskedToken
from kbert.inspection.views.pairs import DrawnPair

_MARKS = {"[MASK]": "■", "random": "⇄", "kept": "="}
_LEGEND = (
    '<p class="note"><b>■</b> replaced by [MASK]. <b>⇄</b> replaced by a random token. <b>=</b> chosen, but kept.</p>'
)
_ROW, _SIDE, _WIDTH = 24, 150, 440  # of a picture of attention: a row, a column of tokens, all
_FAINTEST = 0.02  # lines below it are not drawn: thousands would hide the others
_MOST_LISTED = 10
SEGMENTS = (
    '<p class="note"><span class="token a">Solid underline</span>: segment A. '
    '<span class="token b">Dashed underline</span>: segment B.</p>'
)


def error(message: str) -> str:
    """A sentence that says what is wrong with the input."""
    return f'<p class="error" role="alert">{escape(message)}</p>'


def note(sentence: str) -> str:
    return f'<p class="note">{escape(sentence)}</p>' if sentence else ""


def truncated(count: int) -> str:
    tokens = "token does" if count == 1 else "tokens do"
    return note(f"The last {count:,} {tokens} not fit, and the model does not read them." if count else "")


def table(header: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def ranked(header: Sequence[str], rows: Sequence[tuple[str, float]], as_text=percent) -> str:
    """A table of names and fractions, each with a bar."""
    cells = ((escape(name), f'<meter value="{max(value, 0):.4f}"></meter> {as_text(value)}') for name, value in rows)
    return table(header, cells)


# Masking


def masking_sentence(masked: MaskedText, rate: float, shares: Mapping[str, float]) -> str:
    """How many tokens were chosen, what became of them, and the rule for both."""
    chosen = len(masked.chosen)
    kinds = {"[MASK]": "became [MASK]", "random": "became a random token", "kept": "stayed unchanged"}
    became = [f"{masked.count(kind)} {words} ({percent(shares[kind])} by the rule)" for kind, words in kinds.items()]
    loss = masked.loss
    return (
        f"<p>{chosen:,} of the row's {len(masked.tokens):,} tokens {'was' if chosen == 1 else 'were'} chosen for a "
        f"prediction ({percent(rate)} by the rule, but never [CLS] or [SEP]): {', '.join(became[:2])} and {became[2]}."
        + ("" if loss is None else f" The model's loss on the chosen tokens is {loss:.2f}.")
        + "</p>"
    )


def masked_chips(masked: MaskedText) -> str:
    """The tokens in their order; under each chosen one what the model guesses."""
    return f'<div class="chips">{"".join(map(_chip, masked.tokens))}</div>{_LEGEND}{SEGMENTS}'


def _chip(token: MaskedToken) -> str:
    segment = "ab"[token.segment]
    if not token.is_chosen:
        return f'<span class="chip"><span class="token {segment}">{escape(token.original)}</span></span>'
    mark = f"<b>{_MARKS[token.kind]}</b>"
    new = mark if token.kind == "kept" else f"{mark} {escape(token.corrupted)}"
    old = escape(token.original) if token.kind == "kept" else f"<s>{escape(token.original)}</s>"
    guesses = "".join(
        f'<span class="guess{" right" * (guess == token.original)}">{"✓ " * (guess == token.original)}{escape(guess)} '
        f"{percent(fraction)}</span>"
        for guess, fraction in token.guesses
    )
    return f'<span class="chip chosen"><span class="token {segment}">{old} {new}</span>{guesses}</span>'


def masking_table(masked: MaskedText) -> str:
    """The original, the corrupted input and the label of every token."""
    header = ["original", "corrupted input", "label", "its probability"]
    rows = []
    for token in masked.tokens:
        now = f"<b>{_MARKS[token.kind]} {escape(token.corrupted)}</b>" if token.is_chosen else escape(token.corrupted)
        label = f"<b>{escape(token.original)}</b>" if token.is_chosen else "–"
        fraction = "" if token.label_probability is None else percent(token.label_probability)
        rows.append([escape(token.original), now, label, fraction])
    return table(header, rows)


# Next sentence


def pair_documents(pair: DrawnPair) -> str:
    """Both documents with the sentences of A and B marked."""
    parts = []
    for number, sentences in enumerate(pair.sentences):
        items = []
        for n, sentence in enumerate(sentences):
            is_a, is_b = number == 0 and n in pair.first, number == pair.document and n in pair.second
            mark = "a" if is_a else "b" if is_b else ""
            inner = (
                f'<span class="token {mark}">{escape(sentence)}</span> <b>{mark.upper()}</b>'
                if mark
                else escape(sentence)
            )
            items.append(f"<li>{inner}</li>")
        parts.append(f"<section><h4>Document {number + 1}</h4><ol>{''.join(items)}</ol></section>")
    return f'<div class="documents">{"".join(parts)}</div>{SEGMENTS}'


def pair_steps(pair: DrawnPair) -> str:
    """How the pair came about, and its row."""
    chips = "".join(
        f'<span class="chip"><span class="token {"ab"[segment]}">{escape(token)}</span></span>'
        for token, segment in zip(pair.tokens, pair.segments, strict=True)
    )
    steps = "".join(f"<li>{escape(step)}</li>" for step in pair.steps)
    label = f"<p>The label of this pair is <b>{pair.label}</b>.</p>"
    return f'<ol class="steps">{steps}</ol>{label}<div class="chips">{chips}</div>'


def pair_verdict(pair: DrawnPair, name: str) -> str:
    """What the model says of the pair."""
    if pair.is_next is None:
        return note(f"{name} has no next-sentence head: it says nothing about the pair.")
    verdict = "IsNext" if pair.is_next >= 0.5 else "NotNext"
    mark = "✓" if verdict == pair.label else "✗"
    fractions = [("IsNext", pair.is_next), ("NotNext", 1 - pair.is_next)]
    return f"<p>{mark} {escape(name)} says <b>{verdict}</b>.</p>" + ranked(["answer", "probability"], fractions)


# Input representation


def input_table(row: InputRow, chosen: int) -> str:
    """Index, token with its id, segment and position; each token is a button."""
    rows = []
    for n, (token, token_id, segment) in enumerate(zip(row.tokens, row.token_ids, row.segments, strict=True)):
        button = f'<button data-n="{n}" aria-pressed="{str(n == chosen).lower()}">{escape(token)}</button>'
        rows.append(
            [str(n), button, str(token_id), f'<span class="token {"ab"[segment]}">{"AB"[segment]}</span>', str(n)]
        )
    return table(["index", "token", "id", "segment", "position"], rows)


def input_sum(row: InputRow, chosen: int) -> str:
    """The embeddings of one token, their sum and its LayerNorm, as bars, and their numbers."""
    signs = {"segment": "+ ", "position": "+ ", "sum": "= ", "LayerNorm": "→ "}
    vectors = {name: part[chosen] for name, part in row.parts.items()}
    most = {name: float(np.abs(vector).max()) for name, vector in vectors.items()}
    high = max(most[name] for name in vectors if name != "LayerNorm") or 1.0  # one scale for all that is added
    strips = []
    for name, vector in vectors.items():
        scale = most[name] or 1.0 if name == "LayerNorm" else high
        size = len(vector)
        bars = "".join(
            f"M{n + 0.5} 20V{20 - 19 * value / scale:.1f}" for n, value in enumerate(vector.tolist()) if value
        )
        what = f"{signs.get(name, '')}{name}{'' if name in ('sum', 'LayerNorm') else ' embedding'}"
        strips.append(
            f'<figure class="strip"><figcaption>{what} <span class="note">length {np.linalg.norm(vector):.2f}, largest '
            f'{most[name]:.2f}</span></figcaption><svg viewBox="0 0 {size} 40" preserveAspectRatio="none" role="img" '
            f'aria-label="{name}"><path d="M0 20H{size}" class="axis"/><path d="{bars}"/></svg></figure>'
        )
    columns = [vector.tolist() for vector in vectors.values()]
    rows = [[str(n), *(f"{value:.3f}" for value in numbers)] for n, numbers in enumerate(zip(*columns, strict=True))]
    token = f"<h4>{escape(row.tokens[chosen])} at position {chosen}</h4>"
    return token + "".join(strips) + table(["", *vectors], rows).replace("scroll", "scroll low", 1)


# Attention


def heads_table(values: np.ndarray, chosen: tuple[int, int], is_fraction: bool) -> str:
    """A measure of every head [L, A], darker where higher; each cell is a button."""
    high = 1.0 if is_fraction else float(values.max()) or 1.0
    rows = []
    for layer, heads in enumerate(values.tolist()):
        cells = [
            f'<button data-n="{layer * len(heads) + head}" aria-pressed="{str((layer, head) == chosen).lower()}" '
            f'style="--heat:{min(value / high, 1):.2f}" aria-label="layer {layer + 1}, head {head + 1}: {value:.2f}">'
            f"{value:.2f}</button>"
            for head, value in enumerate(heads)
        ]
        rows.append([f"layer {layer + 1}", *cells])
    names = ["", *(f"head {n + 1}" for n in range(values.shape[1]))]
    return f'<div class="heads">{table(names, rows)}</div>'


def attention_lines(probs: np.ndarray, tokens: Sequence[str], segments: Sequence[int], pinned: Iterable[int]) -> str:
    """A head's attention [S, S] as lines, from the tokens at the left to those at the right.

    If tokens are pinned, only their lines are drawn, with the largest fractions in numbers.
    """
    pinned = sorted(n for n in set(pinned) if n < len(tokens))
    received = np.asarray(probs)[pinned].max(axis=0) if pinned else np.zeros(len(tokens))

    def word(n, x, side, more=""):
        token = f'<span class="token {"ab"[int(segments[n])]}">{escape(short(tokens[n]))}</span>{more}'
        box = f'<foreignObject x="{x}" y="{_ROW * n}" width="{_SIDE}" height="{_ROW}">'
        return f'{box}<div xmlns="http://www.w3.org/1999/xhtml" class="{side}">{token}</div></foreignObject>'

    groups, right = [], []
    for n, row in enumerate(np.asarray(probs).tolist()):
        lines = "".join(
            f'<line x1="{_SIDE + 6}" y1="{_ROW * (n + 0.5)}" x2="{_WIDTH - _SIDE - 6}" y2="{_ROW * (m + 0.5)}" '
            f'stroke-opacity="{math.sqrt(p):.2f}"/>'
            for m, p in enumerate(row)
            if p >= _FAINTEST and (not pinned or n in pinned)
        )
        groups.append(
            f'<g data-n="{n}" role="button" tabindex="0" aria-pressed="{str(n in pinned).lower()}" '
            f'aria-label="pin {escape(tokens[n])}">{word(n, 0, "left")}{lines}</g>'
        )
        right.append(
            word(n, _WIDTH - _SIDE, "right", f" <b>{percent(received[n])}</b>" * bool(received[n] >= _FAINTEST))
        )
    return (
        f'<svg class="attention" viewBox="0 0 {_WIDTH} {_ROW * len(tokens)}" role="group" '
        f'aria-label="attention of one head">{"".join(groups)}{"".join(right)}</svg>'
    )


# Answers


def filled_masks(text: str, masks: Sequence[Sequence[Mapping]]) -> str:
    """The text with the proposals under each [MASK]. The model fills only the first masks of a text."""
    parts = text.split("[MASK]")
    pieces = [escape(parts[0])]
    for number, part in enumerate(parts[1:]):
        proposals = "".join(
            f'<span class="guess">{escape(one["token"])} {percent(one["probability"])}</span>'
            for one in (masks[number] if number < len(masks) else [])
        )
        pieces.append(f'<span class="chip chosen"><span class="token">■ [MASK]</span>{proposals}</span>{escape(part)}')
    return f'<div class="chips text">{"".join(pieces)}</div>'


def plain(row: Mapping) -> str:
    """The answer of any task, as a table of one row."""
    cells = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
    return table(row, [list(map(escape, cells))])


def listed_answers(row: Mapping) -> str:
    """The other candidates for a question, and what speaks for none."""
    rows = [(entry["answer"] or "(no answer)", entry["probability"]) for entry in row["n_best"][:_MOST_LISTED]]
    scores = f"Score of the answer: {row['score']:.2f}; of no answer: {row['null_score']:.2f}."
    return note(scores) + ranked(["candidate", "probability"], rows)
