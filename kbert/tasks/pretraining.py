"""Texts with [MASK] in them → tokens for each mask.

Shapes: M masks, V vocabulary.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from kbert.options import Count
from kbert.tasks.task import LONG_TEXT, Task, TaskSignature, answering, of_model

if TYPE_CHECKING:
    from kbert.answers.answers import Answers
    from kbert.config import BertConfig
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.preprocessing.preprocessor import Preprocessor
    from kbert.text.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True)
class MaskedLm(Task):
    """Proposes the most probable ``tokens`` for each [MASK], with their ``probabilities``.

    Args:
        max_masks: how many [MASK]s of a text are answered at most.
        masking: arguments of `kbert.pretraining.TokenMasking` for `kbert.Pipeline.fit`. The default is the paper's
            masking.
        top_k: how many tokens are proposed for each mask.

    Raises:
        ValueError: on `parts`, a `top_k` beyond the vocabulary.
    """

    max_masks: Count = of_model(8)
    masking: Mapping = dataclasses.field(default_factory=dict, metadata={"of_model": True})
    top_k: Count = of_model(5)

    name = "masked_lm"
    model_name = "BertPretrainer"
    answer_names = {"tokens": "FillMaskAnswers"}
    is_finetuned = False
    heads = ("masked_lm_head",)
    model_arguments = {"masked_lm": True, "next_sentence": False}

    @classmethod
    def for_vocabulary(cls, size: int) -> Self:
        return cls(top_k=min(cls.top_k, size))

    def bounds(self, config: "BertConfig") -> dict[str, int]:
        return {
            "max_masks": max(config.max_sequence_length, type(self).max_masks),
            "top_k": max(config.vocabulary_size, type(self).top_k),
        }

    def parts(
        self, model: "BertModel", tokenizer: "BertTokenizer", sequence_length: int
    ) -> "tuple[Preprocessor, Answers]":
        from kbert.answers.pretraining import FillMaskAnswers
        from kbert.preprocessing.fill_mask_preprocessor import FillMaskPreprocessor

        if self.top_k > model.config.vocabulary_size:
            raise ValueError(
                f"`top_k` must be at most the vocabulary's {model.config.vocabulary_size} tokens. "
                f"Received: {self.top_k}"
            )
        preprocessor = FillMaskPreprocessor(
            tokenizer,
            sequence_length,
            self.max_masks,
            causal=model.config.causal,
            masking=self.masking,
            name="preprocessor",
        )
        return preprocessor, FillMaskAnswers(preprocessor.tokenizer, self.top_k, name="answers")

    @classmethod
    def signatures(cls, pipeline: "Pipeline") -> dict[str, TaskSignature]:
        return {"fill_mask": answering(pipeline, values_per_row=cls.values_per_row(pipeline))}

    @classmethod
    def values_per_row(cls, pipeline: "Pipeline") -> int:
        return pipeline.preprocessor.max_masks * pipeline.model.config.vocabulary_size  # logits [M, V]

    @classmethod
    def example_rows(cls, names: tuple[str, ...]) -> list[dict]:
        return [{"text": "Paris is the [MASK] of France."}, {"text": "[MASK] " + LONG_TEXT + "[MASK]"}]


MASK = "[MASK]"


def fill_mask(
    model: "str | os.PathLike | BertModel",
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
        sequence_length: tokens of a text. None: the model's own.

    Returns:
        A dict for each text, with the ``text`` and its ``masks``. Each mask is a list of proposals, the most probable
            first. A proposal is a dict of ``token``, ``probability`` and ``text``, in which the token replaces the
            mask.

    Raises:
        ValueError: a text without a mask, or a model without a masked-LM head.

    Example::

        [answer] = kbert.fill_mask("saved_models/kbert-tiny", "He was born in [MASK].")
        [best["text"] for best in answer["masks"][0]]  # five sentences, the most probable first
    """
    from kbert.models.bert_model import BertModel
    from kbert.weights.build_pipeline import build_pipeline
    from kbert.weights.load import load_pretrained

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
    before = MASK.join(parts[: mask + 1])
    after = MASK.join(parts[mask + 1 :])
    return before.rstrip() + token[2:] + after if token.startswith("##") else before + token + after


@dataclasses.dataclass(frozen=True)
class NextSentence(Task):
    """Says whether the second text of a pair follows the first: ``is_next``.

    Args:
        pair: whether the texts come in pairs, always True.

    Raises:
        ValueError: on `check_options`, texts that do not come in pairs.
    """

    pair: bool = of_model(True)

    name = "next_sentence"
    model_name = "BertPretrainer"
    answer_names = {"is_next": "NextSentenceAnswers"}
    signature = "next_sentence"
    is_finetuned = False
    heads = ("next_sentence_head",)
    model_arguments = {"masked_lm": False, "next_sentence": True}

    def parts(
        self, model: "BertModel", tokenizer: "BertTokenizer", sequence_length: int
    ) -> "tuple[Preprocessor, Answers]":
        from kbert.answers.pretraining import NextSentenceAnswers
        from kbert.preprocessing.preprocessor import TextPreprocessor

        preprocessor = TextPreprocessor(tokenizer, sequence_length, pair=True, name="preprocessor")
        return preprocessor, NextSentenceAnswers(name="answers")

    def check_options(self, given: Collection[str]) -> None:
        if "pair" in given and not self.pair:
            raise ValueError("a next_sentence model reads pairs of texts. Received: pair=False")


@dataclasses.dataclass(frozen=True)
class Pretraining(MaskedLm):
    """A masked language model, with a signature for its next-sentence head.

    Args:
        max_masks, masking, top_k: see `MaskedLm`.
    """

    name = "pretraining"
    heads = ("masked_lm_head", "next_sentence_head")
    model_arguments = {"masked_lm": True, "next_sentence": True}

    @classmethod
    def signatures(cls, pipeline: "Pipeline") -> dict[str, TaskSignature]:
        return super().signatures(pipeline) | {"next_sentence": _next_sentence(pipeline)}


def _next_sentence(pipeline) -> TaskSignature:
    from kbert.answers.pretraining import NextSentenceAnswers
    from kbert.pipelines.run_in_length_buckets import run_in_length_buckets
    from kbert.preprocessing.preprocessor import TextPreprocessor

    tokenizer = pipeline.tokenizer
    settings = pipeline.settings()["tokenizer"]  # the model's own: fill-mask always reads [MASK] in the text
    if settings != tokenizer.settings():
        tokenizer = type(tokenizer)(tokenizer.vocabulary, **settings)
    preprocessor = TextPreprocessor(tokenizer, pipeline.preprocessor.sequence_length, pair=True)
    head = _next_sentence_part(pipeline.model)
    head.row_lengths = pipeline.model.row_lengths
    answers = NextSentenceAnswers()

    def finish(batch, inputs):
        return answers(run_in_length_buckets(head, batch, token_outputs=()), batch)

    return TaskSignature(finish, preprocessor)


def _next_sentence_part(model):
    """The part of the model, or of each member of an ensemble, that this output needs; it shares the model's layers."""
    import keras

    from kbert.models.average import mean_outputs

    inputs = {name: tensor for name, tensor in model.input.items() if name != "mask_positions"}
    if model.members:
        return keras.Model(inputs, mean_outputs([_next_sentence_part(member) for member in model.members], inputs))
    return keras.Model(inputs, {"nsp_logits": model.output["nsp_logits"]})
