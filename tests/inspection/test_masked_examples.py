"""The table of masked examples: what was there, what was shown, what was guessed."""

import html
import re
import string
import types

import numpy as np
import tensorflow as tf
from helpers import tiny_pretraining as tiny
from tensorboard.plugin_util import markdown_to_safe_html

from kbert.inspection.masked_examples import MaskedExamples
from kbert.training.resume import fit_steps

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "|", "*", "<b>"]
VOCABULARY += [f"w{i}" for i in range(len(VOCABULARY), tiny.V)]
TOKENIZER = types.SimpleNamespace(vocabulary=VOCABULARY, pad_id=0)


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
    }
    return inputs, {"mlm_logits": np.array([[6, 9, 0], [7, 0, 0]])}, {"mlm_logits": np.array([[1, 1, 0], [1.0, 0, 0]])}


def test_table():
    callback = MaskedExamples(TOKENIZER, batch(), "unused", examples=2)
    callback.set_model(Guesser([[6, 5, 5], [4, 5, 5]]))
    rows = table_rows(markdown_to_safe_html(callback.table()))
    assert rows == [
        ["", "masked pieces in <strong>bold</strong>, wrong guesses ✗ <em>in italics</em>"],
        ["<strong>original</strong>", "[CLS] the <strong>cat</strong> ##s <strong>|</strong> [SEP]"],
        ["<strong>corrupted</strong>", "[CLS] the <strong>[MASK]</strong> ##s <strong>*</strong> [SEP]"],
        ["<strong>predicted, 1 of 2</strong>", "[CLS] the <strong>cat</strong> ##s ✗ <em>the</em> [SEP]"],
        ["<strong>original</strong>", "[CLS] <strong>sat</strong> | &lt;b&gt; [SEP]"],
        ["<strong>corrupted</strong>", "[CLS] <strong>sat</strong> | &lt;b&gt; [SEP]"],
        ["<strong>predicted, 0 of 1</strong>", "[CLS] ✗ <em>[MASK]</em> | &lt;b&gt; [SEP]"],
    ]


def test_pieces_that_are_markdown_are_shown_as_they_are():
    """A vocabulary's punctuation, links, tags and references, at a masked place and beside one."""
    pieces = [
        *string.punctuation,
        "##**",
        "__x__",
        "](",
        "![",
        "<script>",
        "&lt;",
        "&#42;",
        "1.",
        "~~",
        "```",
        "é",
        "中",
    ]
    tokenizer = types.SimpleNamespace(vocabulary=["[PAD]", "[CLS]", *pieces], pad_id=0)
    ids = np.arange(1, 2 + len(pieces))
    for place in range(1, len(ids)):
        inputs = {"token_ids": ids[np.newaxis], "mask_positions": np.array([[place]])}
        data = inputs, {"mlm_logits": ids[np.newaxis, place : place + 1]}, {"mlm_logits": np.ones([1, 1])}
        callback = MaskedExamples(tokenizer, data, "unused")
        callback.set_model(lambda *_, **__: {"mlm_logits": np.eye(len(ids) + 1)[[[1]]]})
        original, corrupted, predicted = table_rows(markdown_to_safe_html(callback.table()))[1:]
        shown = [html.escape(piece, quote=False) for piece in ["[CLS]", *pieces]]
        bold = [*shown[:place], f"<strong>{shown[place]}</strong>", *shown[place + 1 :]]
        assert original[1] == corrupted[1] == " ".join(bold)
        assert predicted[1] == " ".join([*shown[:place], "✗ <em>[CLS]</em>", *shown[place + 1 :]])


def table_rows(page):
    """The cells of TensorBoard's HTML; character references are resolved but for those of markup."""
    rows = re.findall(r"<tr>(.*?)</tr>", page, flags=re.DOTALL)
    for char in set(string.punctuation) - set("<>&"):
        rows = [row.replace(f"&#{ord(char)};", char) for row in rows]
    for char in "<>&":
        rows = [row.replace(f"&#{ord(char)};", html.escape(char)) for row in rows]
    rows = [row.replace("&nbsp;", " ").replace("\u00a0", " ") for row in rows]
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]


def test_while_training(tmp_path):
    callback = MaskedExamples(TOKENIZER, next(iter(tiny.make_dataset(77))), tmp_path / "logs", examples=3, every=2)
    model = tiny.model()
    fit_steps(model, tiny.make_dataset, 8, tmp_path / "run", window=2, callbacks=[callback])
    written = []
    for path in (tmp_path / "logs").rglob("*tfevents*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                written.append((event.step, value.tag, value.tensor.string_val[0].decode()))
    written.sort(key=lambda record: record[0])  # each time has its own file, and their names sort ".10." before ".9."
    assert [(step, tag) for step, tag, _ in written] == [(4, "masked examples"), (8, "masked examples")]
    assert written[-1][2] == callback.table()
    assert written[0][2].count("**original**") == 3
