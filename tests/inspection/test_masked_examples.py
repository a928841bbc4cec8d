"""The table of masked examples: what was there, what was shown, what was guessed."""

import types

import numpy as np
import tensorflow as tf
from helpers import tiny_pretraining as tiny

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
    assert callback.table().splitlines() == [
        "| | text |",
        "|---|---|",
        r"| **original** | [CLS] the **cat** ##s **\|** [SEP] |",
        r"| **corrupted** | [CLS] the **[MASK]** ##s **\*** [SEP] |",
        r"| **predicted, 1 of 2** | [CLS] the **cat** ##s **~~the~~** [SEP] |",
        r"| **original** | [CLS] **sat** \| &lt;b&gt; [SEP] |",
        r"| **corrupted** | [CLS] **sat** \| &lt;b&gt; [SEP] |",
        r"| **predicted, 0 of 1** | [CLS] **~~[MASK]~~** \| &lt;b&gt; [SEP] |",
    ]


def test_while_training(tmp_path):
    callback = MaskedExamples(TOKENIZER, next(iter(tiny.make_dataset(77))), tmp_path / "logs", examples=3, every=2)
    model = tiny.compiled_model()
    fit_steps(model, tiny.make_dataset, 8, tmp_path / "run", window=2, callbacks=[callback])
    written = []
    for path in sorted((tmp_path / "logs").rglob("*tfevents*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                written.append((event.step, value.tag, value.tensor.string_val[0].decode()))
    assert [(step, tag) for step, tag, _ in written] == [(4, "masked examples"), (8, "masked examples")]
    assert written[-1][2] == callback.table()
    assert written[0][2].count("**original**") == 3
