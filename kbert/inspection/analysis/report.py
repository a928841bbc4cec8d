"""What `kbert.inspect` returns, and how it is shown: pictures, Markdown, one HTML page, files, a run of TensorBoard.

Shapes: L layers, A heads.
"""

import base64
import dataclasses
import hashlib
import html
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbert.files import check_directory_is_free, to_json, write_directory
from kbert.inspection.analysis.attention_heads import STATISTICS
from kbert.inspection.analysis.attributions import TokenAttributions
from kbert.inspection.analysis.probes import LayerProbes
from kbert.inspection.analysis.projector import Embeddings, write_projector
from kbert.inspection.analysis.states import TextStates
from kbert.inspection.board.event_file import INSPECTION, EventFile
from kbert.inspection.board.summaries import histogram, image, scalar, text
from kbert.inspection.charts import attention_picture, attribution_picture, heat_map, layer_chart
from kbert.inspection.markdown import escape, markdown_table, percent
from kbert.options import PathLike

DRAWN_TEXTS = 2  # a base model's pictures of attention take 160 MB for each text
DRAWN_ATTRIBUTIONS = 16  # pictures of up to 4 MB each, which are in memory together
_MOST_TOKENS = 64  # of a text, in the page
_FIGURES = "figures.json"
_REPORT = "report.html"
_PICTURES = "pictures"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """The results of `kbert.inspect`.

    Attributes:
        name: of the model, for headings.
        model: task and sizes.
        texts: the inspected texts: tokens, hidden states, attention.
        statistics: name of `STATISTICS` → [L, A], means over the texts.
        attributions: for each text, which tokens decided the answer. None: the model has no answer to it.
        probes: property → the scores of linear probes of each layer.
        syntax: agreement of the heads with syntactic heads (`head_accuracy`), or None.
        entities: attention within entities (`entity_attention`), or None.
        similarity: linear CKA of the layers of this model (rows) and of the other (columns), or None.
        other: name of the other model, or None.
        embeddings: what the projector shows.

    Example::

        found = kbert.inspect("saved_models/kbert-tiny", texts=["A charming journey."])
        found.statistics["to_sep"].max(), found.texts[0].tokens
    """

    name: str
    model: Mapping[str, Any]
    texts: Sequence[TextStates]
    statistics: Mapping[str, np.ndarray]
    attributions: Sequence[TokenAttributions | None] = ()
    probes: Mapping[str, LayerProbes] = dataclasses.field(default_factory=dict)
    syntax: Mapping[str, Any] | None = None
    entities: Mapping[str, Any] | None = None
    similarity: np.ndarray | None = None
    other: str | None = None
    embeddings: Sequence[Embeddings] = ()

    def __repr__(self):
        return f"<Inspection of {self.name}: {len(self.texts)} texts, probes of {list(self.probes)}>"

    def to_dict(self) -> dict[str, Any]:
        """The figures, for JSON: everything except attention, hidden states and embeddings."""
        return {
            "name": self.name,
            "model": dict(self.model),
            "texts": [
                {"texts": list(of_text.texts), "tokens": of_text.tokens, "truncated": of_text.truncated}
                for of_text in self.texts
            ],
            "head_statistics": _plain(self.statistics),
            "attributions": [None if of_text is None else of_text.to_dict() for of_text in self.attributions],
            "probes": {name: probes.to_dict() for name, probes in self.probes.items()},
            "syntax": _plain(self.syntax),
            "entities": _plain(self.entities),
            "similarity": None if self.similarity is None else {"other": self.other, "cka": _plain(self.similarity)},
        }


def _plain(value):
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


# Pictures and Markdown


def pictures(inspection: Inspection) -> dict[str, np.ndarray]:
    """Name → picture, uint8 [height, width, 3]; a name's first part is its group. The report shows all texts."""
    layers = [f"layer {n}" for n in range(1, inspection.model["layers"] + 1)]
    heads = [f"head {n}" for n in range(1, inspection.model["heads"] + 1)]
    drawn = {}
    for number, states in enumerate(inspection.texts[:DRAWN_TEXTS], start=1):
        for layer, probs in zip(layers, states.attention, strict=True):
            name = f"text {number}, {layer}"
            drawn[f"attention/{name}"] = attention_picture(probs, states.tokens, name)
    for name, values in inspection.statistics.items():
        high = None if name in ("entropy", "distance") else 1.0
        drawn[f"heads/{name}"] = heat_map(values, layers, heads, f"heads: {name}", high)
    agreement = {}
    if inspection.syntax is not None:
        agreement |= {f"syntax/{part}": inspection.syntax[part] for part in ("to_head", "from_head")}
    if inspection.entities is not None:
        agreement["entities/fraction"] = inspection.entities["fraction"]
    for name, values in agreement.items():
        drawn[name] = heat_map(values, layers, heads, name.replace("/", ": "), high=1.0)
    for name, probes in inspection.probes.items():
        lines = {"accuracy": probes.accuracy, "macro F1": probes.macro_f1, "control task": probes.control_accuracy}
        lines["majority"] = [probes.majority] * len(probes.accuracy)
        drawn[f"probes/{name}"] = layer_chart(lines, f"linear probes: {name}", ("control task", "majority"))
    if inspection.similarity is not None:
        rows, columns = ([f"layer {n}" for n in range(count)] for count in inspection.similarity.shape)
        title = f"CKA with {inspection.other} (columns)"
        drawn["similarity/CKA"] = heat_map(inspection.similarity, rows, columns, title, high=1.0)
    for number, explained in enumerate(inspection.attributions[:DRAWN_ATTRIBUTIONS], start=1):
        if explained is not None:
            picture = attribution_picture(explained.tokens, explained.attributions, explained.target)
            drawn[f"attributions/text {number}"] = picture
    return drawn


def markdown_texts(inspection: Inspection) -> dict[str, str]:
    """Name → Markdown, in which all that comes from texts and models is escaped."""
    facts = [[escape(str(name)), escape(str(value))] for name, value in inspection.model.items()]
    pages = {"model": markdown_table([escape(inspection.name), ""], facts)}
    if len(inspection.texts) > DRAWN_TEXTS:
        pages["model"] += (
            f"\n\nAttention is drawn of the first {DRAWN_TEXTS} of {len(inspection.texts)} texts, attributions of the "
            f"first {DRAWN_ATTRIBUTIONS}; report.html has all."
        )
    rows = []
    for name, values in inspection.statistics.items():
        layer, head = np.unravel_index(np.argmax(values), values.shape)
        where = f"layer {layer + 1}, head {head + 1}"
        rows.append([escape(name), f"{values.mean():.2f}", f"{values.max():.2f}", where])
    pages["heads"] = markdown_table(["statistic", "mean", "highest", "where"], rows)
    for name, probes in inspection.probes.items():
        scores = zip(probes.accuracy, probes.macro_f1, probes.control_accuracy, probes.selectivity, strict=True)
        rows = [[str(layer), *map(percent, row)] for layer, row in enumerate(scores)]
        header = ["layer", "accuracy", "macro F1", "control task", "selectivity"]
        majority = f"\n\nMost frequent label: {percent(probes.majority)}; {probes.test_words:,} words."
        pages[f"probes/{name}"] = markdown_table(header, rows) + majority
    for number, explained in enumerate(inspection.attributions, start=1):
        if explained is not None:
            numbers = [f"{value:+.3f}" for value in explained.attributions]
            rows = list(zip(map(escape, explained.tokens), numbers, strict=True))
            path = f"from {explained.start:.3f} to {explained.end:.3f}"
            note = f"{escape(explained.target)}: {path}, {_completeness(explained)}"
            pages[f"attributions/text {number}"] = f"{note}\n\n" + markdown_table(["token", "attribution"], rows)
    return pages


def _completeness(explained):
    """Whether attributions add up."""
    verdict = "they add up" if explained.is_complete else "they do NOT add up"
    return f"{verdict} to the difference, but for {100 * explained.error:.2g}% ({explained.steps} steps)"


# A directory


def check_output(directory: PathLike, overwrite: bool) -> None:
    """Raises FileExistsError if `write_files` may not replace something; call it before long work."""
    check_directory_is_free(directory, (_FIGURES, _REPORT, _PICTURES), overwrite)


def write_files(inspection: Inspection, directory: PathLike, drawn: Mapping[str, np.ndarray]) -> None:
    """Writes ``figures.json``, ``report.html`` and, of the `pictures`, ``pictures/*.png``, atomically."""
    from PIL import Image

    def write(place):
        (place / _FIGURES).write_text(to_json(inspection.to_dict()), encoding="utf-8")
        (place / _REPORT).write_text(report_html(inspection), encoding="utf-8")
        (place / _PICTURES).mkdir()
        for number, (name, pixels) in enumerate(drawn.items()):
            stem = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "picture"
            file = place / _PICTURES / f"{stem}.png"
            if file.exists():  # other characters are left out
                file = file.with_stem(f"{stem}-{number}")
            Image.fromarray(pixels).save(file, "PNG", optimize=True)

    write_directory(directory, write)


def report_html(inspection: Inspection) -> str:
    """The report as one page: attention to look into, tables and charts, for light and dark.

    It requests nothing: its policy allows only its own script and style, by their hashes. Texts and tokens are data of
    the script, which shows them as text.
    """
    here = pathlib.Path(__file__)
    style, script = (here.with_suffix(f".{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    data = json.dumps(_data(inspection), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<\u2028\u2029":  # no text ends the script
        data = data.replace(char, f"\\u{ord(char):04x}")
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
    figures = inspection.to_dict()
    for of_text, states in zip(figures["texts"], inspection.texts, strict=True):
        shown = min(len(states.tokens), _MOST_TOKENS)
        of_text["shown"] = shown
        of_text["attention"] = _packed(states.attention[:, :, :shown, :shown])
        of_text["norms"] = np.linalg.norm(states.hidden_states[:, :shown], axis=-1).round(3).tolist()
    for of_text, explained in zip(figures["attributions"], inspection.attributions, strict=True):
        if explained is not None:
            of_text["verdict"] = _completeness(explained)
    return figures | {"meaning": STATISTICS}


def _packed(probs):
    """Probabilities as 16-bit numbers, little-endian, in base64: steps of 0.000015."""
    steps = np.round(np.clip(probs, 0.0, 1.0) * 65535).astype("<u2")
    return base64.b64encode(steps.tobytes()).decode()


# TensorBoard


def write_tensorboard(inspection: Inspection, log_dir: PathLike, drawn: Mapping[str, np.ndarray]) -> None:
    """Writes, or replaces, the run `inspection` with all `pictures`.

    In Scalars and Histograms the step is the layer, 0 the embeddings. Tags begin with "model", so that Time Series,
    which sorts them, still opens on accuracy and loss; no two dashboards have a tag in common, which only one of them
    would show.
    """

    def write(directory):
        write_projector(directory, inspection.embeddings)  # before the events, by which TensorBoard finds the run
        file = EventFile(directory)
        file.write(0, [text(f"model tables/{name}", page) for name, page in markdown_texts(inspection).items()])
        for name, pixels in drawn.items():
            group, _, part = name.partition("/")
            file.write(0, [image(f"model {name}", pixels, STATISTICS[part] if group == "heads" else "")])
        for name, values in inspection.statistics.items():
            for layer, heads in enumerate(values, start=1):
                file.write(layer, [histogram(f"model head statistics/{name}", heads, STATISTICS[name])])
        for name, probes in inspection.probes.items():
            scores = {
                "accuracy": probes.accuracy,
                "macro_f1": probes.macro_f1,
                "control_accuracy": probes.control_accuracy,
                "selectivity": probes.selectivity,
            }
            for part, values in scores.items():
                for layer, value in enumerate(values):
                    file.write(layer, [scalar(f"model probe scores/{name}/{part}", value)])
        file.close()

    write_directory(pathlib.Path(log_dir) / INSPECTION, write)
