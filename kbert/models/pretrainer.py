"""BERT with the heads it is pre-trained with.

Shapes: B batch, S sequence, P predictions, K parts of a packed row, V vocabulary.
"""

import keras

from kbert.checks import check_option
from kbert.config import BertConfig
from kbert.layers.masked_lm_head import MaskedLMHead
from kbert.models.bert_model import BertModel
from kbert.models.encoder import BertEncoder
from kbert.models.resolve_encoder import new_head, resolve_encoder
from kbert.optim.adamw import AdamW
from kbert.optim.losses import MaskedLanguageModelLoss, NextSentenceLoss
from kbert.optim.metrics import CrossEntropy, Perplexity, WeightedAccuracy


@keras.saving.register_keras_serializable("kbert")
class BertPretrainer(BertModel):
    """Encoder with the masked-LM and the next-sentence head, or with one of them.

    Args:
        encoder: `BertConfig`, or a `BertEncoder` to share.
        next_sentence: whether there is a next-sentence head. Without it the task is ``masked_lm``.
        masked_lm: whether there is a masked-LM head. Without it the task is ``next_sentence``.
        tied: whether the output table of the masked LM is the table of token embeddings.
        num_parts: K, for packed rows.
        head_activation, head_layer_norm_epsilon: of the masked-LM head. None: the config's. (KerasHub's head has the
            erf GELU and 1e-5 on an encoder with the tanh GELU and 1e-12.)
        dtype: dtype policy of a new encoder.

    Inputs: as `BertEncoder` and, with the masked LM, ``mask_positions`` int32 [B, P]. Unused slots point at 0, and
    their weight in the loss is 0.

    Outputs: float32 ``mlm_logits`` [B, P, V]; ``nsp_logits`` [B, 2] (packed [B, K, 2]), where 0 = IsNext, 1 = random.

    Raises:
        TypeError: `encoder` is neither a config nor an encoder.
        ValueError: neither head, an encoder without an output that a head reads, or a `dtype` or `num_parts` that is
            not the encoder's.

    For a copy with new weights use ``BertPretrainer.from_config(model.get_config())``: `keras.models.clone_model`
    copies layer by layer and would untie the table.

    Source: section 3.1; Google's ``run_pretraining.py``.

    Example::

        model = BertPretrainer(BertConfig.from_size("tiny", vocabulary_size=100))
        ids = keras.ops.ones((2, 5), dtype="int32")
        batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0, "mask_positions": ids[:, :3]}
        model(batch)["mlm_logits"]  # [2, 3, 100]
    """

    own_arguments = ("next_sentence", "masked_lm", "tied", "head_activation", "head_layer_norm_epsilon")

    def __init__(
        self,
        encoder: BertConfig | BertEncoder,
        next_sentence: bool = True,
        masked_lm: bool = True,
        tied: bool = True,
        num_parts: int | None = None,
        head_activation: str | None = None,
        head_layer_norm_epsilon: float | None = None,
        dtype: str | dict | keras.DTypePolicy | None = None,
        **kwargs,
    ):
        next_sentence = check_option("BertPretrainer", "next_sentence", next_sentence, bool)
        masked_lm = check_option("BertPretrainer", "masked_lm", masked_lm, bool)
        tied = check_option("BertPretrainer", "tied", tied, bool)
        if not next_sentence and not masked_lm:
            raise ValueError(
                "BertPretrainer: at least one head is needed. Received: next_sentence=False, masked_lm=False"
            )
        heads = kwargs.pop("_heads", {})  # of `with_parts`
        needs = ("sequence_output",) * masked_lm + ("pooled_output",) * next_sentence
        encoder = resolve_encoder(encoder, dtype=dtype, num_parts=num_parts, needs=needs)
        inputs, outputs = dict(encoder.input), {}
        hidden = encoder(encoder.input)
        if masked_lm:
            inputs["mask_positions"] = keras.Input((None,), dtype="int32", name="mask_positions")
            head = heads.get("masked_lm_head") or _masked_lm_head(
                encoder, tied, head_activation, head_layer_norm_epsilon
            )
            outputs["mlm_logits"] = head(hidden["sequence_output"], inputs["mask_positions"])  # [B, P, V]
        if next_sentence:
            head = heads.get("next_sentence_head") or new_head(encoder, 2, "next_sentence_head")
            outputs["nsp_logits"] = head(hidden["pooled_output"])  # [B, 2]
        super().__init__(inputs, outputs, dtype=encoder.dtype_policy, **kwargs)
        self.config, self.encoder = encoder.config, encoder
        self.next_sentence = next_sentence
        self.masked_lm = masked_lm
        self.tied = tied
        self.head_activation = head_activation
        self.head_layer_norm_epsilon = head_layer_norm_epsilon

    @property
    def task(self) -> str:
        """``pretraining``, or with one head ``masked_lm`` or ``next_sentence``."""
        if self.masked_lm and self.next_sentence:
            return "pretraining"
        return "masked_lm" if self.masked_lm else "next_sentence"

    def with_parts(self, num_parts: int | None) -> "BertPretrainer":
        """A pretrainer for packed rows that shares the layers of this one: training either changes both.

        Args:
            num_parts: K. None: plain rows.

        Example::

            model = BertPretrainer(BertConfig.from_size("tiny", vocabulary_size=100))
            model.with_parts(8).output["nsp_logits"]  # [B, 8, 2]
        """
        return BertPretrainer(
            self.encoder.with_parts(num_parts),
            **self.own_values(),
            _heads={layer.name: layer for layer in self.layers if layer.name.endswith("_head")},
        )

    def default_optimizer(self) -> keras.optimizers.Optimizer:
        """`kbert.AdamW` at 1e-4, the peak of the paper's pre-training.

        The rate is constant, see `BertModel.default_optimizer`.
        """
        return AdamW(1e-4)

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        losses = {"mlm_logits": MaskedLanguageModelLoss(), "nsp_logits": NextSentenceLoss()}
        return {name: losses[name] for name in self.output}

    def default_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        metrics = {"mlm_logits": [CrossEntropy(), Perplexity(), WeightedAccuracy()], "nsp_logits": [WeightedAccuracy()]}
        return {name: metrics[name] for name in self.output}


def _masked_lm_head(encoder, tied, activation, layer_norm_epsilon):
    config = encoder.config
    epsilon = config.layer_norm_epsilon if layer_norm_epsilon is None else layer_norm_epsilon
    return MaskedLMHead(
        token_embedding=encoder.token_embedding if tied else None,
        vocabulary_size=None if tied else config.vocabulary_size,
        activation=config.activation if activation is None else activation,
        layer_norm_epsilon=epsilon,
        initializer_stddev=config.initializer_stddev,
        dtype=encoder.dtype_policy,
        name="masked_lm_head",
    )
