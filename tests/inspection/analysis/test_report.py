"""The report: one page that asks for nothing, and in which all that is typed stays text."""

import base64
import dataclasses
import hashlib
import html.parser
import json
import re

import numpy as np
import pytest

from kbert.inspection.analysis.attention_heads import mean_statistics
from kbert.inspection.analysis.attributions import TokenAttributions
from kbert.inspection.analysis.probes import LayerProbes
from kbert.inspection.analysis.report import (
    Inspection,
    markdown_texts,
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


def test_it_asks_for_nothing_and_runs_only_its_own_script(found):
    page = report_html(found)
    elements = Page(page)
    assert not [one for one in elements.elements if {"src", "href", "action", "style", "onload"} & set(one)]
    assert [one["tag"] for one in elements.elements].count("script") == 2 and "alert(1)</script>" not in page
    data, script = elements.all("script")
    assert data["type"] == "application/json"
    policy = next(one["content"] for one in elements.all("meta") if one.get("http-equiv"))
    for content in (script["text"], elements.all("style")[0]["text"]):
        assert base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() in policy
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    code = script["text"].replace("http://www.w3.org/2000/svg", "") + elements.all("style")[0]["text"]
    assert not re.search(r"https?://|url\(|@import|fetch|XMLHttp|innerHTML|insertAdjacent|document\.write|eval\(", code)
    assert elements.all("title")[0]["text"].startswith(MARKUP) and elements.all("h1")[0]["text"] == MARKUP


def test_its_data_are_the_figures(found):
    data = json.loads(Page(report_html(found)).all("script")[0]["text"])
    assert data["texts"][0]["tokens"] == TOKENS and data["texts"][0]["truncated"] == 5
    packed = np.frombuffer(base64.b64decode(data["texts"][0]["attention"]), "<u2").reshape(2, 3, 4, 4)
    np.testing.assert_allclose(packed / 65535, found.texts[0].attention, atol=1e-5)
    assert data["probes"][MARKUP]["selectivity"] == pytest.approx([0.0, 0.4, 0.2])
    assert data["similarity"]["other"] == MARKUP and data["attributions"][0]["verdict"].startswith("they add up")
    assert set(data["meaning"]) == set(data["head_statistics"])


def test_an_infinite_number_is_refused(found):
    with pytest.raises(ValueError):
        report_html(Inspection("x", found.model, [], {"entropy": np.full((2, 3), np.inf)}))


def test_every_finding_has_its_picture(found):
    drawn = pictures(found)
    findings = "attention heads syntax entities probes similarity attributions"
    assert {name.partition("/")[0] for name in drawn} == set(findings.split())
    assert sum(name.startswith("attention/") for name in drawn) == 2
    for pixels in drawn.values():
        assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.min() < 100 and pixels.max() == 255


def test_pictures_of_equal_letters_have_files_of_their_own(found, tmp_path):
    pixels = np.zeros((2, 2, 3), "uint8")
    write_files(found, tmp_path / "report", dict.fromkeys(["probes/c", "probes/c++", "тема", "x" * 300], pixels))
    names = sorted(file.name for file in (tmp_path / "report/pictures").iterdir())
    assert names == ["picture.png", "probes-c-1.png", "probes-c.png", f"{'x' * 80}.png"]


def test_attention_is_drawn_of_the_first_texts_and_the_report_has_all(found):
    more = dataclasses.replace(found, texts=[*found.texts] * 3, attributions=())
    drawn = [name for name in pictures(more) if name.startswith("attention/")]
    assert drawn == [f"attention/text {text}, layer {layer}" for text in (1, 2) for layer in (1, 2)]
    assert "of the first 2 of 3 texts" in markdown_texts(more)["model"]
    assert "of the first" not in markdown_texts(found)["model"]
    page = Page(report_html(dataclasses.replace(more, attributions=[None] * 3)))
    assert len(json.loads(page.all("script")[0]["text"])["texts"]) == 3


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


def test_markdown_shows_what_texts_say(found):
    texts = markdown_texts(found)
    assert {name.partition("/")[0] for name in texts} == {"model", "heads", "probes", "attributions"}
    for text in texts.values():
        assert "<script" not in text and "**x**" not in text and "](http" not in text
    assert "+1.500" in texts["attributions/text 1"] and "90%" in texts[f"probes/{MARKUP}"]
