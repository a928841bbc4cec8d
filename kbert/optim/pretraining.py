"""The losses and metrics of `BertPretrainer`, by output."""

from kbert.optim.losses import MaskedLanguageModelLoss, NextSentenceLoss
from kbert.optim.metrics import Accuracy, CrossEntropy, Perplexity


def pretraining_losses(next_sentence=True, masked_lm=True):
    """The losses for `model.compile(loss=...)`; their sum is BERT's loss.

    Args:
        next_sentence, masked_lm: bools, which heads the model has.

    Example::

        model = BertPretrainer(BertConfig.from_size("tiny"))
        model.compile(AdamW(1e-4), loss=pretraining_losses(), weighted_metrics=pretraining_metrics())
    """
    losses = {"mlm_logits": MaskedLanguageModelLoss()} if masked_lm else {}
    return losses | ({"nsp_logits": NextSentenceLoss()} if next_sentence else {})


def pretraining_metrics(next_sentence=True, masked_lm=True):
    """The metrics for `model.compile(weighted_metrics=...)`: they count with the prediction weights.

    Masked LM: cross-entropy, perplexity and accuracy; next sentence: accuracy.

    Args:
        next_sentence, masked_lm: bools, which heads the model has.
    """
    metrics = {"mlm_logits": [CrossEntropy(), Perplexity(), Accuracy()]} if masked_lm else {}
    return metrics | ({"nsp_logits": [Accuracy()]} if next_sentence else {})
