"""What an inspection found → pictures and Markdown, by name."""

import numpy as np

from kbert.inspection.analysis.attention_statistics import STATISTICS
from kbert.inspection.charts import attention_picture, attribution_picture, heat_map, layer_chart
from kbert.inspection.findings.inspection import Inspection
from kbert.inspection.markdown import escape, markdown_table, percent

DRAWN_TEXTS = 2  # whose attention is drawn; of a base model the pictures of a text take 160 MB
DRAWN_ATTRIBUTIONS = 16  # texts, whose pictures of up to 4 MB each are in memory together

MEANING = {
    "entropy": "Entropy of a head's attention, in nats: low where it looks at one token, high where at many.",
    "distance": "How far away a head looks, in tokens.",
    "to_cls": "Share of the attention that goes to [CLS].",
    "to_sep": "Share of the attention that goes to [SEP]: heads that find nothing to look at put it there.",
    "next": "Share of the attention that goes to the next token.",
    "previous": "Share of the attention that goes to the token before.",
}


def pictures(found: Inspection) -> dict[str, np.ndarray]:
    """Name → picture, uint8 [height, width, 3]; a name's first part is its group.

    Attention is drawn of the first `DRAWN_TEXTS` texts, attributions of the first `DRAWN_ATTRIBUTIONS`; the report
    shows those of all.
    """
    layers, heads = (
        names_of(word, count) for word, count in (("layer", found.model["layers"]), ("head", found.model["heads"]))
    )
    drawn = {}
    for number, states in enumerate(found.texts[:DRAWN_TEXTS], start=1):
        for layer, probs in enumerate(states.attention, start=1):
            name = f"text {number}, layer {layer}"
            drawn[f"attention/{name}"] = attention_picture(probs, states.tokens, name)
    for name in STATISTICS:
        if name in found.statistics:
            values = found.statistics[name]
            drawn[f"heads/{name}"] = heat_map(values, layers, heads, f"heads: {name}", high=_high(name, values))
    for key, parts in (("syntax", ("to_head", "from_head")), ("entities", ("share",))):
        for part in parts:
            if getattr(found, key) is not None:
                values = getattr(found, key)[part]
                drawn[f"{key}/{part}"] = heat_map(values, layers, heads, f"{key}: {part}", high=1.0)
    for name, probes in found.probes.items():
        lines = {"accuracy": probes.accuracy, "macro F1": probes.macro_f1, "control task": probes.control_accuracy}
        lines["majority"] = [probes.majority] * len(probes.accuracy)
        drawn[f"probes/{name}"] = layer_chart(lines, f"linear probes: {name}", ("control task", "majority"))
    if found.similarity is not None:
        rows, columns = (names_of("layer", count, first=0) for count in found.similarity.shape)
        title = f"CKA with {found.other} (columns)"
        drawn["similarity/CKA"] = heat_map(found.similarity, rows, columns, title, high=1.0)
    for number, one in enumerate(found.attributions[:DRAWN_ATTRIBUTIONS], start=1):
        if one is not None:
            drawn[f"attributions/text {number}"] = attribution_picture(one.tokens, one.attributions, one.target)
    return drawn


def markdown_texts(found: Inspection) -> dict[str, str]:
    """Name → Markdown, in which all that comes from texts and models is escaped."""
    facts = [[escape(str(name)), escape(str(value))] for name, value in found.model.items()]
    written = {"model": markdown_table([escape(found.name), ""], facts)}
    if len(found.texts) > DRAWN_TEXTS:
        written["model"] += (
            f"\n\nAttention is drawn of the first {DRAWN_TEXTS} of {len(found.texts)} texts, attributions of the first "
            f"{DRAWN_ATTRIBUTIONS}; report.html has all."
        )
    rows = []
    for name, values in found.statistics.items():
        layer, head = np.unravel_index(np.argmax(values), values.shape)
        rows.append(
            [escape(name), f"{values.mean():.2f}", f"{values.max():.2f}", f"layer {layer + 1}, head {head + 1}"]
        )
    if rows:
        written["heads"] = markdown_table(["statistic", "mean", "highest", "where"], rows)
    for name, probes in found.probes.items():
        scores = zip(probes.accuracy, probes.macro_f1, probes.control_accuracy, probes.selectivity, strict=True)
        rows = [[str(layer), *map(percent, row)] for layer, row in enumerate(scores)]
        header = ["layer", "accuracy", "macro F1", "control task", "selectivity"]
        majority = f"\n\nMost frequent label: {percent(probes.majority)}; {probes.test_words:,} words."
        written[f"probes/{name}"] = markdown_table(header, rows) + majority
    for number, one in enumerate(found.attributions, start=1):
        if one is not None:
            rows = [[escape(token), f"{value:+.3f}"] for token, value in zip(one.tokens, one.attributions, strict=True)]
            note = f"{escape(one.target)}: from {one.start:.3f} to {one.end:.3f}, {completeness(one)}"
            written[f"attributions/text {number}"] = f"{note}\n\n" + markdown_table(["token", "attribution"], rows)
    return written


def completeness(one) -> str:
    """One line on whether attributions add up."""
    verdict = "they add up" if one.is_complete else "they do NOT add up"
    return f"{verdict} to the difference, but for {100 * one.error:.2g}% ({one.steps} steps)"


def names_of(word: str, count: int, first: int = 1) -> list[str]:
    """Names in their order: "layer 1", "layer 2"."""
    return [f"{word} {n}" for n in range(first, first + count)]


def _high(name, values):
    return None if name in ("entropy", "distance") else 1.0
