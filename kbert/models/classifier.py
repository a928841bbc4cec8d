"""BERT for classes of texts and of pairs of texts.

Shapes: B batch, S sequence, N labels.
"""

import keras

from kbert.checks import check_option
from kbert.config import BertConfig
from kbert.models.bert_model import BertModel
from kbert.models.encoder import BertEncoder
from kbert.models.resolve_encoder import new_head, resolve_encoder
from kbert.optim.losses import ClassificationLoss, MultiLabelLoss
from kbert.optim.metrics import MultiLabelAccuracy, WeightedAccuracy


@keras.saving.register_keras_serializable("kbert")
class BertClassifier(BertModel):
    """Encoder, then dropout and one linear layer on the pooled [CLS].

    Args:
        encoder: `BertConfig`, or a `BertEncoder` to share.
        num_labels: N.
        dropout: rate on the pooled output. None: the config's `hidden_dropout`.
        multi_label: True: each of the N labels is on or off independently (sigmoids, binary cross-entropy, labels [B,
            N] of 0 and 1). False: each text has one of them (softmax, cross-entropy, labels [B]).
        dtype: dtype policy of a new encoder.

    Inputs: as `BertEncoder`.

    Outputs: float32 ``logits`` [B, N].

    Raises:
        TypeError: `encoder` is neither a config nor an encoder.
        ValueError: an encoder without the output that is read here, or a `dtype` that is not the encoder's.

    Source: section 4.1; Google's ``run_classifier.py``.

    Example::

        model = BertClassifier(BertConfig.from_size("tiny", vocabulary_size=100), num_labels=3)
        ids = keras.ops.ones((2, 5), dtype="int32")
        model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0})["logits"]  # [2, 3]
    """

    task = "classification"
    own_arguments = ("num_labels", "dropout", "multi_label")

    def __init__(
        self,
        encoder: BertConfig | BertEncoder,
        num_labels: int = 2,
        dropout: float | None = None,
        multi_label: bool = False,
        dtype: str | dict | keras.DTypePolicy | None = None,
        **kwargs,
    ):
        encoder = resolve_encoder(encoder, dtype=dtype, needs=("pooled_output",))
        dropout = encoder.config.hidden_dropout if dropout is None else dropout
        head = new_head(encoder, num_labels, "classifier_head", dropout)
        logits = head(encoder(encoder.input)["pooled_output"])  # [B, N]
        super().__init__(encoder.input, {"logits": logits}, dtype=encoder.dtype_policy, **kwargs)
        self.config, self.encoder = encoder.config, encoder
        self.num_labels = num_labels
        self.dropout = dropout
        self.multi_label = check_option("BertClassifier", "multi_label", multi_label, bool)

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        return {"logits": MultiLabelLoss() if self.multi_label else ClassificationLoss()}

    def default_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        return {"logits": [MultiLabelAccuracy() if self.multi_label else WeightedAccuracy()]}
