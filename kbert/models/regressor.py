"""BERT for a number on a text or a pair of texts, such as their similarity.

Shapes: B batch, S sequence.
"""

import keras

from kbert.config import BertConfig
from kbert.models.bert_model import BertModel
from kbert.models.encoder import BertEncoder
from kbert.models.resolve_encoder import new_head, resolve_encoder
from kbert.optim.losses import RegressionLoss
from kbert.optim.metrics import SquaredError


@keras.saving.register_keras_serializable("kbert")
class BertRegressor(BertModel):
    """Encoder, then dropout and one linear unit on the pooled [CLS].

    Args:
        encoder: `BertConfig`, or a `BertEncoder` to share.
        dropout: rate on the pooled output. None: the config's `hidden_dropout`.
        dtype: dtype policy of a new encoder.

    Inputs: as `BertEncoder`.

    Outputs: float32 ``score`` [B].

    Raises:
        TypeError: `encoder` is neither a config nor an encoder.
        ValueError: an encoder without the output that is read here, or a `dtype` that is not the encoder's.

    Source: section 4.1, STS-B (mean squared error).

    Example::

        model = BertRegressor(BertConfig.from_size("tiny", vocabulary_size=100))
        ids = keras.ops.ones((2, 5), dtype="int32")
        model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0})["score"]  # [2]
    """

    task = "regression"
    own_arguments = ("dropout",)

    def __init__(
        self,
        encoder: BertConfig | BertEncoder,
        dropout: float | None = None,
        dtype: str | dict | keras.DTypePolicy | None = None,
        **kwargs,
    ):
        encoder = resolve_encoder(encoder, dtype=dtype, needs=("pooled_output",))
        dropout = encoder.config.hidden_dropout if dropout is None else dropout
        head = new_head(encoder, 1, "regressor_head", dropout)
        score = head(encoder(encoder.input)["pooled_output"])[..., 0]  # [B]
        super().__init__(encoder.input, {"score": score}, dtype=encoder.dtype_policy, **kwargs)
        self.config, self.encoder = encoder.config, encoder
        self.dropout = dropout

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        return {"score": RegressionLoss()}

    def default_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        return {"score": [SquaredError()]}
