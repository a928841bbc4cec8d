"""The table of masked examples: what was there, what was shown, what was guessed."""

import html
import string

import numpy as np
from helpers import tiny_pretraining as tiny
from helpers.shown_text import shown_cells, table_rows
from tensorboard.plugin_util import markdown_to_safe_html

import kbert
from kbert.inspection.examples.masked_examples import MaskedExamples, next_sentence_table
from kbert.inspection.markdown import percent

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "|", "*", "<b>"]
VOCABULARY += [f"w{i}" for i in range(len(VOCABULARY), tiny.V)]


class Guesser:
    """Stands in for a model: always guesses these ids."""

    def __init__(self, guesses):
        self.guesses = np.array(guesses)

    def __call__(self, inputs, training):
        assert training is False
        return {"mlm_logits": np.eye(tiny.V, dtype="float32")[self.guesses]}


def batch():
    inputs = {
        "token_ids": np.array([[2, 5, 4, 8, 10, 3, 0], [2, 7, 9, 11, 3, 0, 0]]),
        "mask_positions": np.array([[2, 4, 0], [1, 0, 0]]),
        "padding_mask": np.array([[True] * 6 + [False], [True] * 5 + [False] * 2]),
    }
    return inputs, {"mlm_logits": np.array([[6, 9, 0], [7, 0, 0]])}, {"mlm_logits": np.array([[1, 1, 0], [1.0, 0, 0]])}


def test_table():
    callback = MaskedExamples(VOCABULARY, batch(), "unused", examples=2)
    callback.set_model(Guesser([[6, 5, 5], [4, 5, 5]]))
    rows = table_rows(markdown_to_safe_html(callback.views()[0].content))
    assert rows == [
        ["", "masked pieces in <strong>bold</strong>, right guesses after ✓, wrong ones ✗ <em>in italics</em>"],
        ["<strong>original</strong>", "[CLS] the <strong>cat</strong> ##s <strong>|</strong> [SEP]"],
        ["<strong>corrupted</strong>", "[CLS] the <strong>[MASK]</strong> ##s <strong>*</strong> [SEP]"],
        [
            "<strong>predicted, 1 of 2</strong>",
            "[CLS] the ✓ <strong>cat</strong> (7.0%) ##s ✗ <em>the</em> (7.0%, right: 2.6%) [SEP]",
        ],
        ["<strong>original</strong>", "[CLS] <strong>sat</strong> | &lt;b&gt; [SEP]"],
        ["<strong>corrupted</strong>", "[CLS] <strong>sat</strong> | &lt;b&gt; [SEP]"],
        ["<strong>predicted, 0 of 1</strong>", "[CLS] ✗ <em>[MASK]</em> (7.0%, right: 2.6%) | &lt;b&gt; [SEP]"],
    ]


def test_a_row_of_padding_is_empty():
    inputs, labels, weights = batch()
    inputs["padding_mask"][1], weights["mlm_logits"][1] = False, 0
    callback = MaskedExamples(VOCABULARY, (inputs, labels, weights), "unused", examples=2)
    callback.set_model(Guesser([[6, 5, 5], [4, 5, 5]]))
    rows = table_rows(markdown_to_safe_html(callback.views()[0].content))
    assert rows[4:] == [
        ["<strong>original</strong>", ""],
        ["<strong>corrupted</strong>", ""],
        ["<strong>predicted, 0 of 0</strong>", ""],
    ]


def test_pieces_that_are_markdown_are_shown_as_they_are():
    """A vocabulary's punctuation, links, tags and references, at a masked place and beside one."""
    pieces = [*string.punctuation, *"##** __x__ ]( ![ <script> &lt; &#42; 1. ~~ ``` é 中".split()]
    ids, vocabulary = np.arange(1, 2 + len(pieces)), ["[PAD]", "[CLS]", *pieces]
    for place in range(1, len(ids)):
        inputs = {"token_ids": ids[np.newaxis], "mask_positions": np.array([[place]])}
        inputs["padding_mask"] = np.ones([1, len(ids)], bool)
        data = inputs, {"mlm_logits": ids[np.newaxis, place : place + 1]}, {"mlm_logits": np.ones([1, 1])}
        callback = MaskedExamples(vocabulary, data, "unused")
        callback.set_model(lambda *_, **__: {"mlm_logits": np.eye(len(ids) + 1)[[[1]]]})
        original, corrupted, predicted = table_rows(markdown_to_safe_html(callback.views()[0].content))[1:]
        shown = [html.escape(piece, quote=False) for piece in ["[CLS]", *pieces]]
        bold = [*shown[:place], f"<strong>{shown[place]}</strong>", *shown[place + 1 :]]
        assert original[1] == corrupted[1] == " ".join(bold)
        fraction = f"({percent(np.e / (np.e + len(ids)))}, right: {percent(1 / (np.e + len(ids)))})"
        assert predicted[1] == " ".join([*shown[:place], f"✗ <em>[CLS]</em> {fraction}", *shown[place + 1 :]])


def pairs_table(**changes):
    inputs = {
        "token_ids": np.array([[2, 5, 11, 3, 6, 7, 3, 0], [2, 5, 3, 9, 3, 0, 0, 0]]),
        "segment_ids": np.array([[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]]),
        "padding_mask": np.array([[True] * 7 + [False], [True] * 5 + [False] * 3]),
    }
    labels, logits = np.array([0, 1]), np.log([[0.9, 0.1], [0.75, 0.25]])
    parts = {"inputs": inputs, "labels": labels, "weights": None, "logits": logits} | changes
    return shown_cells(next_sentence_table(*parts.values(), VOCABULARY))


def test_pairs_with_the_verdict():
    assert pairs_table() == [
        ["first segment", "second segment", "gold", "predicted"],
        ["[CLS] the <b> [SEP]", "cat sat [SEP]", "IsNext", "✓ **IsNext** (90%)"],
        ["[CLS] the [SEP]", "| [SEP]", "NotNext", "✗ *IsNext* (75%)"],
    ]


def test_pairs_of_packed_rows():
    """Two parts in the first row, one in the second, whose second place is empty."""
    inputs = {
        "token_ids": np.array([[2, 5, 3, 6, 3, 2, 7, 3, 9, 3], [2, 8, 3, 10, 3, 0, 0, 0, 0, 0]]),
        "segment_ids": np.array([[0, 0, 0, 1, 1, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0, 0, 0]]),
        "padding_mask": np.array([[True] * 10, [True] * 5 + [False] * 5]),
        "part_ids": np.array([[1] * 5 + [2] * 5, [1] * 5 + [0] * 5]),
    }
    logits = np.log([[[0.2, 0.8], [0.5, 0.5]], [[0.999, 0.001], [0.5, 0.5]]])
    weights = np.array([[1.0, 1.0], [1.0, 0.0]])
    assert pairs_table(inputs=inputs, labels=np.array([[1, 0], [0, 0]]), weights=weights, logits=logits)[1:] == [
        ["[CLS] the [SEP]", "cat [SEP]", "NotNext", "✓ **NotNext** (80%)"],
        ["[CLS] sat [SEP]", "| [SEP]", "IsNext", "✓ **IsNext** (50%)"],
        ["[CLS] ##s [SEP]", "* [SEP]", "IsNext", "✓ **IsNext** (100%)"],
    ]


def test_a_model_of_pairs_alone_has_one_table():
    inputs, *others = next(iter(tiny.make_dataset(77)))
    inputs = {name: value for name, value in inputs.items() if name != "mask_positions"}
    callback = MaskedExamples(VOCABULARY, (inputs, *others), "unused", examples=2)
    callback.set_model(kbert.BertPretrainer(tiny.config(), masked_lm=False))
    assert [view.tag for view in callback.views()] == ["next sentence examples"]


def test_a_model_without_pairs_has_one_table():
    callback = MaskedExamples(VOCABULARY, batch(), "unused", examples=1)
    callback.set_model(Guesser([[6, 5, 5]]))
    assert [view.tag for view in callback.views()] == ["masked examples"]
