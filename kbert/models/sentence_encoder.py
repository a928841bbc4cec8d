"""BERT for the embeddings of texts, trained so that texts of similar meaning are near each other.

Shapes: B batch, S sequence, H hidden.
"""

from collections.abc import Sequence

import keras

from kbert.checks import check_option
from kbert.config import BertConfig
from kbert.keras_compat import Tensor
from kbert.layers.embedding_pooling import EmbeddingPooling
from kbert.models.bert_model import BertModel
from kbert.models.encoder import BertEncoder
from kbert.models.resolve_encoder import resolve_encoder
from kbert.models.train_step import has_replicas, train_with_cached_embeddings
from kbert.optim.embedding_losses import CosineLoss, MultipleNegativesLoss

LOSSES = ("multiple_negatives", "cosine")


@keras.saving.register_keras_serializable("kbert")
class BertSentenceEncoder(BertModel):
    """Encoder, then pooling of the last hidden states to one vector.

    In training the rows of a batch are the texts of examples, one example after the other, and ``embedding`` has the
    labels of `MultipleNegativesLoss` or `CosineLoss`. With `micro_batches` in `compile`, the embeddings of a batch are
    computed in parts, without storing their activations, and once more for the gradient (GradCache). The loss is then
    that of the whole batch, negatives included, in the memory of a part.

    Args:
        encoder: `BertConfig`, or a `BertEncoder` to share.
        pooling, normalize: see `kbert.layers.EmbeddingPooling`.
        loss_name: "multiple_negatives" or "cosine".
        temperature, symmetric: of the multiple negatives, see `kbert.optim.MultipleNegativesLoss`.
        dimensions: lengths of shorter embeddings that are trained, too (Matryoshka).
        dtype: dtype policy of a new encoder.

    Inputs: as `BertEncoder`.

    Outputs: float32 ``embedding`` [B, H].

    Raises:
        TypeError: `encoder` is neither a config nor an encoder.
        ValueError: an encoder for packed rows or without ``sequence_output``, an unknown loss or pooling, a temperature
            that is not positive, dimensions that are not below H, or `micro_batches` on another backend than
            TensorFlow.

    Source: Reimers and Gurevych 2019 (Sentence-BERT); Gao et al. 2021 (GradCache).

    Example::

        model = BertSentenceEncoder(BertConfig.from_size("tiny", vocabulary_size=100))
        model({"token_ids": keras.ops.ones((2, 5), dtype="int32")})["embedding"]  # [2, 128]
    """

    task = "similarity"
    own_arguments = ("pooling", "normalize", "loss_name", "temperature", "symmetric", "dimensions")

    def __init__(
        self,
        encoder: BertConfig | BertEncoder,
        pooling: str = "mean",
        normalize: bool = True,
        loss_name: str = "multiple_negatives",
        temperature: float = 0.05,
        symmetric: bool = False,
        dimensions: Sequence[int] = (),
        dtype: str | dict | keras.DTypePolicy | None = None,
        **kwargs,
    ):
        owner = "BertSentenceEncoder"
        encoder = resolve_encoder(encoder, dtype=dtype, needs=("sequence_output",))
        if encoder.num_parts is not None:
            raise ValueError(f"{owner}: expected an encoder for plain rows. Received: num_parts={encoder.num_parts}")
        if loss_name not in LOSSES:
            raise ValueError(f"{owner}: `loss_name` must be one of {LOSSES}. Received: {loss_name!r}")
        if not isinstance(temperature, int | float) or not temperature > 0:
            raise ValueError(f"{owner}: `temperature` must be above 0. Received: {temperature!r}")
        hidden_dim = encoder.config.hidden_dim
        if any(type(size) is not int or not 0 < size < hidden_dim for size in dimensions):
            raise ValueError(f"{owner}: `dimensions` must be from 1 to {hidden_dim - 1}. Received: {dimensions!r}")
        pool = EmbeddingPooling(pooling, check_option(owner, "normalize", normalize, bool), name="pooling")
        vectors = pool(encoder(encoder.input)["sequence_output"], encoder.input["padding_mask"])
        super().__init__(encoder.input, {"embedding": vectors}, dtype=encoder.dtype_policy, **kwargs)
        self.config = encoder.config
        self.encoder = encoder
        self.pooling = pooling
        self.normalize = normalize
        self.loss_name = loss_name
        self.temperature = temperature
        self.symmetric = check_option(owner, "symmetric", symmetric, bool)
        self.dimensions = tuple(dimensions)

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        if self.loss_name == "cosine":
            return {"embedding": CosineLoss(self.dimensions)}
        return {"embedding": MultipleNegativesLoss(self.temperature, self.symmetric, self.dimensions)}

    def compile(self, *args, micro_batches: int = 1, jit_compile: bool | str = "auto", **kwargs) -> None:
        if micro_batches != 1 and keras.backend.backend() != "tensorflow":
            raise ValueError(
                "BertSentenceEncoder: `micro_batches` is for TensorFlow. Received: "
                f"micro_batches={micro_batches}, backend {keras.backend.backend()}"
            )
        if has_replicas(self):
            jit_compile = False  # XLA cannot gather the texts of other replicas
        super().compile(*args, micro_batches=micro_batches, jit_compile=jit_compile, **kwargs)

    def train_step(self, *args) -> dict[str, Tensor] | tuple:
        if self.micro_batches == 1:
            return super().train_step(*args)
        return train_with_cached_embeddings(self, *args, self.micro_batches)
