"""The same names with one head and with two."""

import types

import pytest

from kbert.training.log_names import readable_logs


def model(*outputs):
    return types.SimpleNamespace(output={name: None for name in outputs})


@pytest.mark.parametrize(
    "outputs, logs, names",
    [
        (
            ("mlm_logits", "nsp_logits"),
            ("loss", "mlm_logits_loss", "nsp_logits_accuracy", "val_loss", "val_mlm_logits_accuracy"),
            ["loss", "mlm_loss", "nsp_accuracy", "val_loss", "val_mlm_accuracy"],
        ),
        (
            ("mlm_logits",),
            ("loss", "accuracy", "val_loss", "val_perplexity"),
            ["loss", "mlm_loss", "mlm_accuracy", "val_loss", "val_mlm_loss", "val_mlm_perplexity"],
        ),
        (("logits",), ("loss", "accuracy", "val_accuracy"), ["loss", "accuracy", "val_accuracy"]),
        (
            ("start_logits", "end_logits"),
            ("loss", "start_logits_loss", "end_logits_accuracy"),
            ["loss", "start_loss", "end_accuracy"],
        ),
    ],
)
def test_names(outputs, logs, names):
    assert list(readable_logs(dict.fromkeys(logs, 1.0), model(*outputs))) == names


def test_one_head_has_its_loss_twice():
    assert readable_logs({"loss": 2.0}, model("nsp_logits")) == {"loss": 2.0, "nsp_loss": 2.0}
