"""BERT for a label on every token, such as named entities.

Shapes: B batch, S sequence, N labels.
"""

import keras

from kbert.config import BertConfig
from kbert.models.bert_model import BertModel
from kbert.models.encoder import BertEncoder
from kbert.models.resolve_encoder import new_head, resolve_encoder
from kbert.optim.losses import ClassificationLoss
from kbert.optim.metrics import WeightedAccuracy


@keras.saving.register_keras_serializable("kbert")
class BertTagger(BertModel):
    """Encoder, then dropout and one linear layer on every token's last hidden state, without a CRF.

    Args:
        encoder: `BertConfig`, or a `BertEncoder` to share.
        num_labels: N.
        dropout: rate on the hidden states. None: the config's `hidden_dropout`.
        dtype: dtype policy of a new encoder.

    Inputs: as `BertEncoder`.

    Outputs: float32 ``logits`` [B, S, N].

    Raises:
        TypeError: `encoder` is neither a config nor an encoder.
        ValueError: an encoder without the output that is read here, or a `dtype` that is not the encoder's.

    Source: section 5.3 (a word is labelled at its first token; its other tokens have weight 0 in the loss).

    Example::

        model = BertTagger(BertConfig.from_size("tiny", vocabulary_size=100), num_labels=9)
        ids = keras.ops.ones((2, 5), dtype="int32")
        model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0})["logits"]  # [2, 5, 9]
    """

    task = "tagging"
    token_outputs = ("logits",)
    own_arguments = ("num_labels", "dropout")

    def __init__(
        self,
        encoder: BertConfig | BertEncoder,
        num_labels: int,
        dropout: float | None = None,
        dtype: str | dict | keras.DTypePolicy | None = None,
        **kwargs,
    ):
        encoder = resolve_encoder(encoder, dtype=dtype, needs=("sequence_output",))
        dropout = encoder.config.hidden_dropout if dropout is None else dropout
        head = new_head(encoder, num_labels, "tagger_head", dropout)
        logits = head(encoder(encoder.input)["sequence_output"])  # [B, S, N]
        super().__init__(encoder.input, {"logits": logits}, dtype=encoder.dtype_policy, **kwargs)
        self.config, self.encoder = encoder.config, encoder
        self.num_labels = num_labels
        self.dropout = dropout

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        return {"logits": ClassificationLoss()}

    def default_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        return {"logits": [WeightedAccuracy()]}
