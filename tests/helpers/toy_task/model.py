"""A score of politeness."""

import keras

from kbert.layers.task_head import TaskHead
from kbert.models.bert_model import BertModel
from kbert.models.resolve_encoder import resolve_encoder
from kbert.optim.losses import RegressionLoss


@keras.saving.register_keras_serializable("toy")
class BertPoliteness(BertModel):
    """Encoder, then one linear unit on the pooled [CLS]; ``politeness`` [B]."""

    task = "politeness"

    def __init__(self, encoder, dtype=None, **kwargs):
        encoder = resolve_encoder(encoder, dtype=dtype, needs=("pooled_output",))
        head = TaskHead(1, dtype=encoder.dtype_policy, name="politeness_head")
        score = head(encoder(encoder.input)["pooled_output"])[..., 0]
        super().__init__(encoder.input, {"politeness": score}, dtype=encoder.dtype_policy, **kwargs)
        self.config = encoder.config
        self.encoder = encoder

    def default_loss(self):
        return {"politeness": RegressionLoss()}

    def get_config(self):
        return super().get_config() | {"encoder": keras.saving.serialize_keras_object(self.encoder)}
