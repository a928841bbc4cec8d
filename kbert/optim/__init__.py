"""Losses, metrics, the paper's optimizer and schedule."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AdamW": "adamw",
        "AddLoss": "losses",
        "ClassificationLoss": "losses",
        "CosineLoss": "embedding_losses",
        "CrossEntropy": "metrics",
        "DistillationLoss": "distillation_loss",
        "Lamb": "lamb",
        "MaskedLanguageModelLoss": "losses",
        "MultiLabelAccuracy": "metrics",
        "MultiLabelLoss": "losses",
        "MultipleNegativesLoss": "embedding_losses",
        "NextSentenceLoss": "losses",
        "Perplexity": "metrics",
        "RegressionLoss": "losses",
        "SpanAccuracy": "metrics",
        "SpanLoss": "losses",
        "SquaredError": "metrics",
        "WarmupStableDecay": "warmup_stable_decay",
        "WarmupLinearDecay": "schedule",
        "WeightedAccuracy": "metrics",
    },
)
