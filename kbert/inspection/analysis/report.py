"""What `kbert.inspect` returns, and how it is shown: pictures, one HTML page with them, a run of TensorBoard.

Shapes: L layers, A heads.
"""

import base64
import dataclasses
import html
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbert.aliases import PathLike
from kbert.files import check_directory_is_free, to_json, write_directory
from kbert.inspection.analysis.attention_heads import STATISTICS
from kbert.inspection.analysis.attributions import TokenAttributions
from kbert.inspection.analysis.probes import LayerProbes
from kbert.inspection.analysis.projector import Embeddings, write_projector
from kbert.inspection.analysis.states import TextStates
from kbert.inspection.board.event_file import INSPECTION, EventFile
from kbert.inspection.board.summaries import image, png_file
from kbert.inspection.charts import attention_picture, attribution_picture, heat_map, layer_chart

DRAWN_TEXTS = 2  # a base model's pictures of attention take 160 MB for each text
DRAWN_ATTRIBUTIONS = 16  # pictures of up to 4 MB each, which are in memory together
_FIGURES = "figures.json"
_REPORT = "report.html"
_SECTIONS = {  # group of pictures → heading, and what to look for
    "attributions": (
        "Which tokens decided",
        "Integrated gradients on the token embeddings. Bars to the right speak for the answer, bars to the left "
        "against it. They add up to the change of the output.",
    ),
    "attention": ("Attention", "Each row of a map is a token that attends, and adds up to 100%."),
    "heads": ("Heads", "Means over the tokens of all texts."),
    "probes": (
        "Layer probes",
        "Accuracy of a linear classifier on the states of each layer. In the control task every word type has a random "
        "label: what a probe scores there it has memorized (Hewitt and Liang 2019).",
    ),
    "syntax": ("Heads and syntax", "How often a word attends most to its syntactic head, or the head to it."),
    "entities": ("Heads and entities", "How much of their attention the words of an entity give to its other words."),
    "similarity": (
        "Similarity of layers",
        "Linear CKA: 1 where two layers are equal up to rotation and scale. Where the diagonal falls, models differ.",
    ),
}


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


# Pictures


def pictures(inspection: Inspection) -> dict[str, np.ndarray]:
    """Name → picture, uint8 [height, width, 3]; a name's first part is its group."""
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


# A directory


def check_output(directory: PathLike, overwrite: bool) -> None:
    """Raises FileExistsError if `write_files` may not replace something; call it before long work."""
    check_directory_is_free(directory, (_FIGURES, _REPORT), overwrite)


def write_files(inspection: Inspection, directory: PathLike, drawn: Mapping[str, np.ndarray]) -> None:
    """Writes ``figures.json`` and ``report.html``, with the `pictures`, atomically."""

    def write(place):
        (place / _FIGURES).write_text(to_json(inspection.to_dict()), encoding="utf-8")
        (place / _REPORT).write_text(report_html(inspection, drawn), encoding="utf-8")

    write_directory(directory, write)


def report_html(inspection: Inspection, drawn: Mapping[str, np.ndarray]) -> str:
    """The report as one static page, for light and dark, which requests nothing: the pictures are in it."""
    style = pathlib.Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    title = html.escape(inspection.name)
    facts = " · ".join(f"{name.replace('_', ' ')} {value}" for name, value in inspection.model.items())
    captions = _captions(inspection)
    body = [f'<h1>{title}</h1>\n<p class="note">{html.escape(facts)}</p>']
    for group, (heading, note) in _SECTIONS.items():
        figures = {name: pixels for name, pixels in drawn.items() if name.partition("/")[0] == group}
        if figures:
            body.append(f'<h2>{heading}</h2>\n<p class="note">{note}</p>')
        for name, pixels in figures.items():
            png = base64.b64encode(png_file(pixels)).decode()
            width = pixels.shape[1] // 2  # two pixels a point
            image = f'<img src="data:image/png;base64,{png}" width="{width}" alt="{html.escape(name)}">'
            body.append(f"<figure>{image}<figcaption>{html.escape(captions.get(name, ''))}</figcaption></figure>")
    if len(inspection.texts) > DRAWN_TEXTS:
        body.append(
            f'<p class="note">Attention is drawn of the first {DRAWN_TEXTS} of {len(inspection.texts)} texts, '
            f"attributions of the first {DRAWN_ATTRIBUTIONS}.</p>"
        )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: inspection</title>
<style>{style}</style>
</head>
<body>
<main>
{chr(10).join(body)}
<p class="note">kbert.inspect wrote this page; {_FIGURES} beside it has the numbers.</p>
</main>
</body>
</html>
"""


def _captions(inspection: Inspection) -> dict[str, str]:
    """Name of a picture → what its title does not say."""
    captions = {f"heads/{name}": meaning for name, meaning in STATISTICS.items()}
    for number, states in enumerate(inspection.texts, start=1):
        text = " | ".join(states.texts)
        text = text if len(text) <= 80 else text[:79] + "…"
        captions[f"attention/text {number}, layer 1"] = text
        captions[f"attributions/text {number}"] = text
    for number, explained in enumerate(inspection.attributions, start=1):
        if explained is not None:
            change = f". The output changes from {explained.start:.2f} at the baseline to {explained.end:.2f}."
            if not explained.is_complete:
                change += f" The attributions miss this change by {100 * explained.error:.2g}%."
            captions[f"attributions/text {number}"] += change
    return captions


# TensorBoard


def write_tensorboard(inspection: Inspection, log_dir: PathLike, drawn: Mapping[str, np.ndarray]) -> None:
    """Writes, or replaces, the run `inspection` with all `pictures` and the projector.

    Tags begin with "model", so that Time Series, which sorts them, still opens on accuracy and loss.
    """

    def write(directory):
        write_projector(directory, inspection.embeddings)  # before the events, by which TensorBoard finds the run
        file = EventFile(directory)
        for name, pixels in drawn.items():
            group, _, part = name.partition("/")
            file.write(0, [image(f"model {name}", pixels, STATISTICS[part] if group == "heads" else "")])
        file.close()

    write_directory(pathlib.Path(log_dir) / INSPECTION, write)
