"""BERT for answers that are a span of the given text.

Shapes: B batch, S sequence.
"""

import keras

from kbert.config import BertConfig
from kbert.models.bert_model import BertModel
from kbert.models.encoder import BertEncoder
from kbert.models.resolve_encoder import new_head, resolve_encoder
from kbert.optim.losses import SpanLoss
from kbert.optim.metrics import SpanAccuracy


@keras.saving.register_keras_serializable("kbert")
class BertSpanExtractor(BertModel):
    """Encoder, then a start and an end score for every token, without dropout on the head.

    All positions get a score, question and padding too. [CLS] means "no answer". `kbert.answers.spans` decides which
    spans are allowed.

    Args:
        encoder: `BertConfig`, or a `BertEncoder` to share.
        dtype: dtype policy of a new encoder.

    Inputs: as `BertEncoder`.

    Outputs: float32 ``start_logits`` and ``end_logits`` [B, S].

    Raises:
        TypeError: `encoder` is neither a config nor an encoder.
        ValueError: an encoder without the output that is read here, or a `dtype` that is not the encoder's.

    Source: section 4.2; Google's ``run_squad.py``, ``create_model``.

    Example::

        model = BertSpanExtractor(BertConfig.from_size("tiny", vocabulary_size=100))
        ids = keras.ops.ones((2, 5), dtype="int32")
        model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0})["start_logits"]  # [2, 5]
    """

    task = "span"
    token_outputs = ("start_logits", "end_logits")

    def __init__(
        self, encoder: BertConfig | BertEncoder, dtype: str | dict | keras.DTypePolicy | None = None, **kwargs
    ):
        encoder = resolve_encoder(encoder, dtype=dtype, needs=("sequence_output",))
        head = new_head(encoder, 2, "span_head")
        logits = head(encoder(encoder.input)["sequence_output"])  # [B, S, 2]
        outputs = {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
        super().__init__(encoder.input, outputs, dtype=encoder.dtype_policy, **kwargs)
        self.config, self.encoder = encoder.config, encoder

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        return {name: SpanLoss() for name in ("start_logits", "end_logits")}

    def default_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        return {name: [SpanAccuracy()] for name in ("start_logits", "end_logits")}
