"""Texts with [MASK] in them → tokens for each mask.

What needs TensorFlow is imported where a pipeline is built: a model is also trained and saved on machines without it.

Shapes: M masks, V vocabulary.
"""

from kbert.models.pretrainer import BertPretrainer
from kbert.pipelines.example_rows import LONG_TEXT
from kbert.pipelines.task_pipeline import TaskPipeline


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
