"""The report: one page that asks for nothing, and in which all that is typed stays text."""

import base64
import dataclasses
import html.parser
import io
import re

import numpy as np
import pytest
from PIL import Image

from kbert.inspection.analysis.attention_heads import mean_statistics
from kbert.inspection.analysis.attributions import TokenAttributions
from kbert.inspection.analysis.probes import LayerProbes
from kbert.inspection.analysis.report import (
    Inspection,
    pictures,
    report_html,
    write_files,
)
from kbert.inspection.analysis.states import TextStates
from kbert.inspection.charts import attention_picture

MARKUP = "</script><script>alert(1)</script><!-- <b>&amp;\u2028 | **x** [a](http://evil)"
TOKENS = ["[CLS]", MARKUP, "中", "[SEP]"]


class Page(html.parser.HTMLParser):
    """The elements of a page with their attributes and text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append({"tag": tag, "text": "", **dict(attributes)})
        self._open.append(self.elements[-1])

    def handle_endtag(self, tag):
        while self._open and self._open.pop()["tag"] != tag:
            pass

    def handle_data(self, text):
        if self._open:
            self._open[-1]["text"] += text

    def all(self, tag):
        return [one for one in self.elements if one["tag"] == tag]


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    scores = rng.random((2, 3, 4, 4))
    probs = (scores / scores.sum(axis=-1, keepdims=True)).astype("float32")
    states = TextStates((MARKUP, "b"), TOKENS, np.arange(4), np.zeros(4, int), rng.normal(size=(3, 4, 6)), probs, 5)
    scores = {"accuracy": [0.5, 0.9, 0.8], "macro_f1": [0.4, 0.9, 0.8], "control_accuracy": [0.5, 0.5, 0.6]}
    counts = {"majority": 0.5, "train_words": 90, "test_words": 10, "unknown": 0}
    probes = LayerProbes(MARKUP, ["a", MARKUP], **scores, **counts)
    return Inspection(
        MARKUP,
        {"task": "classification", "layers": 2, "heads": 3, "hidden_dim": 6, "vocabulary_size": 9, "parameters": 1234},
        [states],
        mean_statistics([probs], [TOKENS]),
        [TokenAttributions(TOKENS, MARKUP, [0.0, 1.5, -0.5, 0.0], 1.0, 2.0, 1e-4, True, 16)],
        {MARKUP: probes},
        {"to_head": rng.random((2, 3)), "from_head": rng.random((2, 3)), "baseline": 0.3, "words": 7},
        {"fraction": rng.random((2, 3)), "uniform": 0.2, "words": 4},
        rng.random((3, 3)),
        MARKUP,
    )


@pytest.fixture(scope="module")
def drawn(found):
    return pictures(found)


def test_the_page_is_static_and_asks_for_nothing(found, drawn):
    page = report_html(found, drawn)
    elements = Page(page)
    assert not [one for one in elements.elements if {"href", "action", "style", "onload", "srcset"} & set(one)]
    assert all(one["src"].startswith("data:image/png;base64,") for one in elements.elements if "src" in one)
    assert not elements.all("script") and "<script" not in page.lower() and "<b>" not in page
    policy = next(one["content"] for one in elements.all("meta") if one.get("http-equiv"))
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert not re.search(r"https?://|url\(|@import", elements.all("style")[0]["text"])
    assert elements.all("title")[0]["text"].startswith(MARKUP) and elements.all("h1")[0]["text"] == MARKUP


def test_the_page_has_every_picture_with_its_caption(found, drawn):
    elements = Page(report_html(found, drawn))
    images = elements.all("img")
    assert [one["alt"] for one in images] == sorted(drawn, key=[one["alt"] for one in images].index)
    assert len(images) == len(drawn)
    with Image.open(io.BytesIO(base64.b64decode(images[0]["src"].partition(",")[2]))) as picture:
        np.testing.assert_array_equal(np.asarray(picture), drawn[images[0]["alt"]])
    captions = {one["alt"]: text["text"] for one, text in zip(images, elements.all("figcaption"), strict=True)}
    assert captions["heads/distance"] == "How far away a head looks, in tokens."
    assert captions["attention/text 1, layer 1"].startswith(MARKUP[:79])
    assert captions["attributions/text 1"].endswith(" | b. The output changes from 1.00 at the baseline to 2.00.")


def test_attributions_that_do_not_add_up_are_named(found, drawn):
    wrong = dataclasses.replace(found.attributions[0], is_complete=False, error=0.25)
    page = report_html(dataclasses.replace(found, attributions=[wrong]), drawn)
    assert "to 2.00. The attributions miss this change by 25%." in page


def test_an_infinite_number_is_refused(found, tmp_path):
    statistics = found.statistics | {"entropy": np.full((2, 3), np.inf)}
    with pytest.raises(ValueError):
        write_files(dataclasses.replace(found, statistics=statistics), tmp_path / "report", {})
    assert not (tmp_path / "report").exists()


def test_every_finding_has_its_picture(drawn):
    findings = "attention heads syntax entities probes similarity attributions"
    assert {name.partition("/")[0] for name in drawn} == set(findings.split())
    assert sum(name.startswith("attention/") for name in drawn) == 2
    for pixels in drawn.values():
        assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.min() < 100 and pixels.max() == 255


def test_attention_is_drawn_of_the_first_texts(found):
    more = dataclasses.replace(found, texts=[*found.texts] * 3, attributions=[None] * 3)
    drawn = [name for name in pictures(more) if name.startswith("attention/")]
    assert drawn == [f"attention/text {text}, layer {layer}" for text in (1, 2) for layer in (1, 2)]
    for inspection, is_said in ((more, True), (found, False)):
        assert ("Attention is drawn of the first 2 of 3 texts" in report_html(inspection, {})) is is_said


def test_a_stronger_attention_is_darker(found):
    probs = np.zeros((1, 4, 4), "float32")
    probs[0, 1, 2] = 1.0
    dark = attention_picture(probs, TOKENS, "").astype(int)
    faint = attention_picture(0.3 * probs, TOKENS, "").astype(int)
    none = attention_picture(0 * probs, TOKENS, "").astype(int)
    assert dark.shape == none.shape and (none - dark).sum() > 2 * (none - faint).sum() > 0
    where = np.argwhere((none != dark).any(axis=-1))  # one cell
    height, width = where.max(axis=0) - where.min(axis=0) + 1
    assert len(where) > 0.95 * height * width and height * width < dark.shape[0] * dark.shape[1] / 16
