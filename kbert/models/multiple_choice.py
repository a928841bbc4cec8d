"""BERT for picking one of several continuations or answers.

Shapes: B batch, C choices, S sequence.
"""

import keras

from kbert.config import BertConfig
from kbert.layers.choices import MergeChoices, SplitChoices
from kbert.models.bert_model import BertModel
from kbert.models.encoder import BertEncoder
from kbert.models.resolve_encoder import new_head, resolve_encoder
from kbert.optim.losses import ClassificationLoss
from kbert.optim.metrics import WeightedAccuracy


@keras.saving.register_keras_serializable("kbert")
class BertMultipleChoice(BertModel):
    """Encodes each choice as a separate row, whose pooled [CLS] one learned vector scores.

    The highest score wins. A row that is all padding is not a choice: its score is -1e9.

    Args:
        encoder: `BertConfig`, or a `BertEncoder` to share.
        dropout: rate on the pooled output. None: the config's `hidden_dropout`.
        dtype: dtype policy of a new encoder.

    Inputs: the keys of `BertEncoder` with an axis of choices, [B, C, S]. C and S may vary.

    Outputs: float32 ``logits`` [B, C].

    Raises:
        TypeError: `encoder` is neither a config nor an encoder.
        ValueError: an encoder without the output that is read here, or a `dtype` that is not the encoder's, or an
            encoder for packed rows.

    Source: section 4.4 (SWAG).

    Example::

        model = BertMultipleChoice(BertConfig.from_size("tiny", vocabulary_size=100))
        ids = keras.ops.ones((2, 4, 5), dtype="int32")
        model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0})["logits"]  # [2, 4]
    """

    task = "multiple_choice"
    own_arguments = ("dropout",)

    def __init__(
        self,
        encoder: BertConfig | BertEncoder,
        dropout: float | None = None,
        dtype: str | dict | keras.DTypePolicy | None = None,
        **kwargs,
    ):
        encoder = resolve_encoder(encoder, dtype=dtype, needs=("pooled_output",))
        if encoder.num_parts is not None:
            raise ValueError(
                "BertMultipleChoice: a choice is a row of its own, it cannot be part of packed rows. "
                f"Received: an encoder with num_parts={encoder.num_parts}"
            )
        policy = encoder.dtype_policy
        dropout = encoder.config.hidden_dropout if dropout is None else dropout
        head = new_head(encoder, 1, "multiple_choice_head", dropout)
        inputs = {
            name: keras.Input((None, None), dtype=tensor.dtype, name=name) for name, tensor in encoder.input.items()
        }
        rows = {name: MergeChoices(dtype=policy, name=f"merge_{name}")(x) for name, x in inputs.items()}  # [B * C, S]
        scores = head(encoder(rows)["pooled_output"])  # [B * C, 1]
        logits = SplitChoices(dtype=policy, name="split_choices")(scores, inputs["padding_mask"])  # [B, C]
        super().__init__(inputs, {"logits": logits}, dtype=policy, **kwargs)
        self.config, self.encoder = encoder.config, encoder
        self.dropout = dropout

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        return {"logits": ClassificationLoss()}

    def default_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        return {"logits": [WeightedAccuracy()]}
