"""What an inspection found → pictures, Markdown and one HTML page that needs nothing else."""

import base64
import hashlib
import html
import json
import pathlib

import numpy as np

from kbert.inspection.analysis.attention_heads import STATISTICS
from kbert.inspection.charts import attention_picture, attribution_picture, heat_map, layer_chart
from kbert.inspection.findings.inspection import Inspection
from kbert.inspection.markdown import escape, markdown_table, percent

DRAWN_TEXTS = 2  # a base model's pictures of attention take 160 MB for each text
DRAWN_ATTRIBUTIONS = 16  # pictures of up to 4 MB each, which are in memory together

MEANING = {
    "entropy": "Entropy of a head's attention, in nats: low where it looks at one token, high where at many.",
    "distance": "How far away a head looks, in tokens.",
    "to_cls": "Share of the attention that goes to [CLS].",
    "to_sep": "Share of the attention that goes to [SEP]: heads that find nothing to look at put it there.",
    "next": "Share of the attention that goes to the next token.",
    "previous": "Share of the attention that goes to the token before.",
}


def pictures(inspection: Inspection) -> dict[str, np.ndarray]:
    """Name → picture, uint8 [height, width, 3]; a name's first part is its group.

    Attention is drawn of the first `DRAWN_TEXTS` texts, attributions of the first
    `DRAWN_ATTRIBUTIONS`. The report shows all of them.
    """
    layers, heads = (
        names_of(word, count)
        for word, count in (("layer", inspection.model["layers"]), ("head", inspection.model["heads"]))
    )
    drawn = {}
    for number, states in enumerate(inspection.texts[:DRAWN_TEXTS], start=1):
        for layer, probs in enumerate(states.attention, start=1):
            name = f"text {number}, layer {layer}"
            drawn[f"attention/{name}"] = attention_picture(probs, states.tokens, name)
    for name in STATISTICS:
        if name in inspection.statistics:
            values = inspection.statistics[name]
            drawn[f"heads/{name}"] = heat_map(values, layers, heads, f"heads: {name}", high=_high(name, values))
    for key, parts in (("syntax", ("to_head", "from_head")), ("entities", ("share",))):
        for part in parts:
            if getattr(inspection, key) is not None:
                values = getattr(inspection, key)[part]
                drawn[f"{key}/{part}"] = heat_map(values, layers, heads, f"{key}: {part}", high=1.0)
    for name, probes in inspection.probes.items():
        lines = {"accuracy": probes.accuracy, "macro F1": probes.macro_f1, "control task": probes.control_accuracy}
        lines["majority"] = [probes.majority] * len(probes.accuracy)
        drawn[f"probes/{name}"] = layer_chart(lines, f"linear probes: {name}", ("control task", "majority"))
    if inspection.similarity is not None:
        rows, columns = (names_of("layer", count, first=0) for count in inspection.similarity.shape)
        title = f"CKA with {inspection.other} (columns)"
        drawn["similarity/CKA"] = heat_map(inspection.similarity, rows, columns, title, high=1.0)
    for number, attribution in enumerate(inspection.attributions[:DRAWN_ATTRIBUTIONS], start=1):
        if attribution is not None:
            drawn[f"attributions/text {number}"] = attribution_picture(
                attribution.tokens, attribution.attributions, attribution.target
            )
    return drawn


def markdown_texts(inspection: Inspection) -> dict[str, str]:
    """Name → Markdown, in which all that comes from texts and models is escaped."""
    facts = [[escape(str(name)), escape(str(value))] for name, value in inspection.model.items()]
    written = {"model": markdown_table([escape(inspection.name), ""], facts)}
    if len(inspection.texts) > DRAWN_TEXTS:
        written["model"] += (
            f"\n\nAttention is drawn of the first {DRAWN_TEXTS} of {len(inspection.texts)} texts, attributions of the "
            f"first {DRAWN_ATTRIBUTIONS}; report.html has all."
        )
    rows = []
    for name, values in inspection.statistics.items():
        layer, head = np.unravel_index(np.argmax(values), values.shape)
        rows.append(
            [escape(name), f"{values.mean():.2f}", f"{values.max():.2f}", f"layer {layer + 1}, head {head + 1}"]
        )
    if rows:
        written["heads"] = markdown_table(["statistic", "mean", "highest", "where"], rows)
    for name, probes in inspection.probes.items():
        scores = zip(probes.accuracy, probes.macro_f1, probes.control_accuracy, probes.selectivity, strict=True)
        rows = [[str(layer), *map(percent, row)] for layer, row in enumerate(scores)]
        header = ["layer", "accuracy", "macro F1", "control task", "selectivity"]
        majority = f"\n\nMost frequent label: {percent(probes.majority)}; {probes.test_words:,} words."
        written[f"probes/{name}"] = markdown_table(header, rows) + majority
    for number, attribution in enumerate(inspection.attributions, start=1):
        if attribution is not None:
            numbers = [f"{value:+.3f}" for value in attribution.attributions]
            rows = list(zip(map(escape, attribution.tokens), numbers, strict=True))
            path = f"from {attribution.start:.3f} to {attribution.end:.3f}"
            note = f"{escape(attribution.target)}: {path}, {completeness(attribution)}"
            written[f"attributions/text {number}"] = f"{note}\n\n" + markdown_table(["token", "attribution"], rows)
    return written


def completeness(attribution) -> str:
    """One line on whether attributions add up."""
    verdict = "they add up" if attribution.is_complete else "they do NOT add up"
    return f"{verdict} to the difference, but for {100 * attribution.error:.2g}% ({attribution.steps} steps)"


def names_of(word: str, count: int, first: int = 1) -> list[str]:
    """Names in their order: "layer 1", "layer 2"."""
    return [f"{word} {n}" for n in range(first, first + count)]


def _high(name, values):
    return None if name in ("entropy", "distance") else 1.0


_MOST_TOKENS = 64  # of a text, in the page
_PARTS = pathlib.Path(__file__).parent


def report_html(inspection: Inspection) -> str:
    """The report as one page: attention to look into, tables and charts, for light and dark.

    It requests nothing: its policy allows only its own script and style, by their hashes. Texts and
    tokens are data of the script, which shows them as text.
    """
    style, script = ((_PARTS / f"report.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    data = json.dumps(_data(inspection), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = (
        data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )  # no text ends the script
    title = html.escape(inspection.name)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}: inspection</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<main><h1>{title}</h1><noscript>This page draws its figures with a script of its own.</noscript></main>\n"
        f'<script type="application/json" id="data">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _hash(content):
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode('utf-8')).digest()).decode()}'"


def _data(inspection):
    plain = inspection.to_dict()
    for one, states in zip(plain["texts"], inspection.texts, strict=True):
        shown = min(len(states.tokens), _MOST_TOKENS)
        one["shown"] = shown
        one["attention"] = _packed(states.attention[:, :, :shown, :shown])
        one["norms"] = np.linalg.norm(states.hidden_states[:, :shown], axis=-1).round(3).tolist()
    for one, attributions in zip(plain["attributions"], inspection.attributions, strict=True):
        if one is not None:
            one["verdict"] = completeness(attributions)
    return plain | {"meaning": {name: MEANING[name] for name in STATISTICS}}


def _packed(probs):
    """Probabilities as 16-bit numbers, little-endian, in base64: steps of 0.000015."""
    steps = np.round(np.clip(probs, 0.0, 1.0) * 65535).astype("<u2")
    return base64.b64encode(steps.tobytes()).decode()
