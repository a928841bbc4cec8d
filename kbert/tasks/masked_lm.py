"""Texts with [MASK] in them → tokens for each mask.

Shapes: M masks, V vocabulary.
"""

import os
from collections.abc import Sequence
from typing import Any

from kbert.models.bert_model import BertModel
from kbert.models.pretrainer import BertPretrainer
from kbert.pipelines.task_pipeline import TaskPipeline
from kbert.pipelines.task_signature import LONG_TEXT
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained


class MaskedLmPipeline(TaskPipeline):
    """The `top_k` most probable ``tokens`` for each [MASK], with their ``probabilities``."""

    task = "masked_lm"
    model_class = BertPretrainer
    model_arguments = {"masked_lm": True, "next_sentence": False}
    options = ("max_masks", "masking", "top_k")
    heads = ("masked_lm_head",)

    def parts(self, model, tokenizer, settings):
        from kbert.answers.fill_mask import FillMaskAnswers
        from kbert.preprocessing.fill_mask_preprocessor import FillMaskPreprocessor

        if settings["top_k"] > model.config.vocabulary_size:
            raise ValueError(
                f"build_pipeline: `top_k` must be at most the vocabulary's {model.config.vocabulary_size} tokens. "
                f"Received: {settings['top_k']}"
            )
        preprocessor = FillMaskPreprocessor(
            tokenizer,
            settings["sequence_length"],
            settings["max_masks"],
            causal=model.config.causal,
            masking=settings["masking"],
            name="preprocessor",
        )
        return preprocessor, FillMaskAnswers(preprocessor.tokenizer, settings["top_k"], name="answers")

    def exported_answers(self, labels, outputs):
        from kbert.answers.fill_mask import FillMaskAnswers

        return FillMaskAnswers(tokenizer=None)

    def signatures(self, pipeline):
        from kbert.pipelines.task_signature import answering

        return {"fill_mask": answering(pipeline, values_per_row=self.values_per_row(pipeline))}

    def values_per_row(self, pipeline):
        return pipeline.preprocessor.max_masks * pipeline.model.config.vocabulary_size  # logits [M, V]

    def example_rows(self, names):
        return [{"text": "Paris is the [MASK] of France."}, {"text": "[MASK] " + LONG_TEXT + "[MASK]"}]


PIPELINE = MaskedLmPipeline()


MASK = "[MASK]"


def fill_mask(
    model: str | os.PathLike | BertModel,
    texts: str | Sequence[str],
    *,
    top_k: int = 5,
    sequence_length: int | None = None,
) -> list[dict[str, Any]]:
    """The proposals of a masked language model for every [MASK], as plain Python values.

    Args:
        model: what `kbert.load_pretrained` loads, or a model that it has loaded, with a masked-LM head.
        texts: one text or several, each with a [MASK].
        top_k: how many tokens to propose for each mask.
        sequence_length: tokens of a text; None: the model's own.

    Returns:
        A dict for each text: ``text``, and ``masks``, a list for each mask of dicts of ``token``, ``probability`` and
        ``text``, in which the token replaces the mask; most probable first.

    Raises:
        ValueError: a text without a mask, or a model without a masked-LM head.

    Example::

        [answer] = kbert.fill_mask("saved_models/kbert-tiny", "He was born in [MASK].")
        [best["text"] for best in answer["masks"][0]]  # five sentences, the most probable first
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    if without := [text for text in texts if MASK not in text]:
        raise ValueError(f"fill_mask: expected a {MASK} in each text. Received: {without[0]!r}")
    source = model
    if not isinstance(model, BertModel):
        model = load_pretrained(source)
    if "mlm_logits" not in model.output:
        raise ValueError(
            f"fill_mask: expected a model with a masked-LM head. Received: a {model.task} model"
            + (f" in {source}" if model is not source else "")
        )
    masks = max((text.count(MASK) for text in texts), default=1)
    pipeline = build_pipeline(model, sequence_length=sequence_length, max_masks=masks, top_k=top_k)
    answers = pipeline.predict(texts, verbose=0)
    return [
        {
            "text": text,
            "masks": [
                [{**proposal, "text": filled(text, number, proposal["token"])} for proposal in mask]
                for number, mask in enumerate(row["masks"])
            ],
        }
        for text, row in zip(texts, pipeline.answers.to_dicts(answers), strict=True)
    ]


def filled(text: str, mask: int, token: str) -> str:
    """The text with a token instead of its `mask`-th [MASK]; a "##" piece is joined to the word before it."""
    parts = text.split(MASK)
    before, after = MASK.join(parts[: mask + 1]), MASK.join(parts[mask + 1 :])
    return before.rstrip() + token[2:] + after if token.startswith("##") else before + token + after
