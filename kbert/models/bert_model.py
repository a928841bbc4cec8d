"""What all of kbert's models share.

Shapes: B batch, S sequence, H hidden.
"""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import keras

from kbert.keras_compat import (
    CompatibleModel,
    Tensor,
    deserialize,
    is_within_fit,
    serialize_shared,
    split_rows,
)
from kbert.models.check_inputs import checked_inputs, complete_inputs, lists_to_arrays
from kbert.models.check_targets import check_targets, checked_dataset
from kbert.models.class_weights import apply_class_weight
from kbert.models.from_logits import losses_from_logits, metrics_from_logits
from kbert.models.lora import add_lora, enable_lora, lora_layers, merge_lora, merged
from kbert.models.quantized_layers import check_not_quantized, quantize_layers, quantized_layers
from kbert.models.train_step import (
    check_micro_batches,
    has_replicas,
    losses_of_outputs,
    train_in_parts,
    train_in_parts_on_jax,
)
from kbert.models.trainability import set_trainability, set_trainable, trainability
from kbert.models.write_saved_model import write_saved_model
from kbert.optim.adamw import AdamW
from kbert.training.signals import give_back_signals


class BertModel(CompatibleModel):
    """A functional `keras.Model` on batches (dicts of arrays): the base class of kbert's models, not used by itself.

    A batch may lack ``padding_mask`` and ``segment_ids``. The mask is then True where a token is not [PAD]
    (``config.pad_token_id``), and the segments are 0. So most models also take token ids alone, without a dict.

    Attributes of every model:
        config: the `BertConfig` of its encoder.
        encoder: its `BertEncoder`.
        task: what it does, one of the words in `kbert.pipelines.registry`.
        num_labels: N of a model with a head for labels. None: it has no such head.
        multi_label: whether each label is on or off by itself.
        dropout: of the head. None: it has none.
        token_outputs: names of the outputs with a value for every token, [B, S, ...].
        own_arguments: arguments of the constructor besides encoder and dtype, attributes that `get_config` stores.
        members: the models of an ensemble (`average_models`).
        pretrained: None, or what `kbert.load_pretrained` found besides the weights (tokenizer, settings). Copies of the
            model and its files do not have it. Those of a `kbert.Pipeline` keep tokenizer and labels.

    `compile()` uses AdamW at a constant learning rate and the task's losses and metrics (`default_optimizer`,
    `default_loss`, `default_metrics`) unless others are given. All outputs for classes are logits, and Keras' losses
    and metrics given by name read them as such (`kbert.models.from_logits`). `fit`, `evaluate`, `train_on_batch` and
    `test_on_batch` refuse labels that are not a class, in arrays and in a tf.data.Dataset
    (`kbert.models.check_targets`).

    Raises:
        ValueError: on a call, a batch with a missing or an unknown key, which the message names, arrays of other
            dimensions than the inputs', or ids outside their table. On `fit` and `evaluate`, an empty dataset. On `fit`
            and the like, labels that are not a class. On `fit` and `train_on_batch`, a quantised model. On `quantize`,
            another mode than int8 or a model with LoRA. On `save`, an ``.h5`` file, which Keras could not load.
    """

    task: str
    num_labels: int | None = None
    multi_label: bool = False
    dropout: float | None = None
    token_outputs: tuple[str, ...] = ()
    own_arguments: tuple[str, ...] = ()
    members: tuple["BertModel", ...] = ()
    row_lengths: tuple[int, ...] = ()  # to which `run_in_length_buckets` pads rows; none: to the longest of their group
    pretrained: Any = None
    provenance: Any = None
    micro_batches, compiles_gradient = 1, False

    def __init__(
        self,
        inputs: dict[str, keras.KerasTensor],
        outputs: dict[str, Any],
        dtype: str | dict | keras.DTypePolicy | None = None,
        name: str | None = None,
        trainable: bool = True,
    ):
        # No other arguments: a functional model of Keras silently ignores those that it does not know.
        super().__init__(inputs=inputs, outputs=outputs, name=name, trainable=trainable)
        self.dtype_policy = keras.dtype_policies.get(dtype)

    def __setattr__(self, name, value):
        if name == "trainable":
            set_trainable(self, bool(value))
        else:
            super().__setattr__(name, value)

    def __call__(self, inputs: dict[str, Tensor] | Tensor, *args, **kwargs) -> dict[str, Any]:
        # Not in `call` alone: Keras compares the inputs with those of the graph before that.
        return super().__call__(complete_inputs(self, inputs), *args, **kwargs)

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, mask: Any = None, **kwargs
    ) -> dict[str, Any]:
        inputs = complete_inputs(self, inputs)  # on JAX Keras trains without `__call__`
        return super().call(inputs, training=training, mask=mask, **kwargs)

    def default_optimizer(self) -> keras.optimizers.Optimizer:
        """The optimizer of `compile()`: `kbert.AdamW` at a constant 5e-5, the highest rate of the paper's grid.

        The paper warms up and decays to 0, but `compile` does not know for how many steps `fit` will run. For that
        schedule pass ``AdamW(WarmupLinearDecay(peak, warmup_steps, total_steps))``.
        """
        return AdamW(5e-5)

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        """New losses for `compile()`, by output. Models without losses, such as an encoder, have none."""
        return {}

    def default_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        """New metrics for `compile()`, by output. They use the sample weights."""
        return {}

    def compile(
        self,
        optimizer: str | dict | keras.optimizers.Optimizer = "auto",
        loss: Any = "auto",
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = "auto",
        *,
        micro_batches: int = 1,
        jit_compile: bool | str = "auto",
        **kwargs,
    ) -> None:
        """`keras.Model.compile`, with the paper's defaults.

        Args:
            optimizer: "auto" is `default_optimizer`.
            loss: "auto" is `default_loss`. None is no loss, as in Keras.
            loss_weights, metrics: as in Keras.
            weighted_metrics: "auto" is `default_metrics` if `loss` is "auto" and no `metrics` are given. Otherwise it
                is none, since labels for another loss may have another form.
            micro_batches: in how many parts, one after the other, a replica computes the gradient of its part of a
                batch. Loss and update are those of the whole batch, in less memory.
            jit_compile: as in Keras. With several replicas XLA then compiles the gradient inside each of them.
            **kwargs: other arguments of `keras.Model.compile`: run_eagerly, steps_per_execution ...

        Raises:
            ValueError: a loss or metric that would take logits for probabilities. `micro_batches` below 1, or above 1
                on another backend than TensorFlow and JAX or with an optimizer that accumulates gradients itself.
        """
        if weighted_metrics == "auto":
            is_default = loss == "auto" and metrics is None
            weighted_metrics = (self.default_metrics() or None) if is_default else None
        if loss == "auto":
            loss = self.default_loss() or None
        if optimizer == "auto":
            optimizer = self.default_optimizer()
        metrics = metrics_from_logits(metrics, self.output)
        weighted_metrics = metrics_from_logits(weighted_metrics, self.output)
        loss = losses_of_outputs(losses_from_logits(loss), self.output)
        check_micro_batches(micro_batches, optimizer)
        self.micro_batches, self.compiles_gradient = int(micro_batches), jit_compile is True and has_replicas(self)
        if self.compiles_gradient:
            jit_compile = False
        kwargs["jit_compile"] = jit_compile
        super().compile(optimizer, loss, loss_weights, metrics, weighted_metrics, **kwargs)

    def get_compile_config(self) -> dict[str, Any]:
        config = super().get_compile_config()
        if not config:  # it is not compiled
            return config
        own = {"micro_batches": self.micro_batches} | ({"jit_compile": True} if self.compiles_gradient else {})
        return config | own

    def compile_from_config(self, config: dict[str, Any]) -> None:  # as Keras does it where `compile` is its own
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def make_train_function(self, force: bool = False) -> Callable | None:
        # Each `fit` and `train_on_batch` calls it first.
        check_not_quantized(self)
        return super().make_train_function(force)

    def train_step(self, *args) -> dict[str, Tensor] | tuple:
        if self.micro_batches == 1 and not self.compiles_gradient:
            return super().train_step(*args)
        if keras.backend.backend() == "jax":
            return train_in_parts_on_jax(self, *args, self.micro_batches)
        return train_in_parts(self, *args, self.micro_batches, self.compiles_gradient)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *args,
        validation_data: Any = None,
        class_weight: Mapping[int, float] | None = None,
        **kwargs,
    ) -> keras.callbacks.History:
        self.provenance = self.encoder.provenance = None  # the weights change
        x, y, kwargs = self._arrays(x, y, kwargs)
        if class_weight is not None:  # Keras takes it only where labels have no key
            if kwargs.get("validation_split") and validation_data is None and y is not None:  # which is not weighted
                columns = x, y, kwargs.get("sample_weight")
                (x, y, kwargs["sample_weight"]), validation_data = split_rows(columns, kwargs.pop("validation_split"))
            x, kwargs["sample_weight"] = apply_class_weight(self, x, y, kwargs.get("sample_weight"), class_weight)
        if isinstance(validation_data, tuple):
            inputs, *targets = validation_data
            targets = (lists_to_arrays(part, len(self.output)) for part in targets)
            validation_data = (checked_inputs(self, inputs), *targets)
            check_targets(self, *validation_data)
        else:
            validation_data = self._checked(validation_data)
        x = self._checked(x, y, kwargs.get("sample_weight"))
        try:
            return super().fit(x, y, *args, validation_data=validation_data, **kwargs)
        finally:
            give_back_signals()  # of `ExactResume`, which Keras does not tell about an error

    def set_weights(self, weights: list[Any]) -> None:
        self.provenance = self.encoder.provenance = None
        super().set_weights(weights)

    def load_weights(self, *args, **kwargs) -> None:
        self.provenance = self.encoder.provenance = None
        super().load_weights(*args, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args, **kwargs) -> float | list[float] | dict[str, float]:
        x, y, kwargs = self._arrays(x, y, kwargs)
        if not is_within_fit(kwargs):  # which has checked them
            x = self._checked(x, y, kwargs.get("sample_weight"))
        return super().evaluate(x, y, *args, **kwargs)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        *args,
        **kwargs,
    ) -> float | list[float] | dict[str, float]:
        self.provenance = self.encoder.provenance = None
        x, y, weights = self._arrays(x, y, {"sample_weight": sample_weight})
        if class_weight is not None:
            _, weights["sample_weight"] = apply_class_weight(self, x, y, weights["sample_weight"], class_weight)
        return super().train_on_batch(self._checked(x, y, **weights), y, *weights.values(), None, *args, **kwargs)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, *args, **kwargs
    ) -> float | list[float] | dict[str, float]:
        x, y, weights = self._arrays(x, y, {"sample_weight": sample_weight})
        return super().test_on_batch(self._checked(x, y, **weights), y, *weights.values(), *args, **kwargs)

    def predict(self, x: Any, *args, **kwargs) -> dict[str, Any]:
        return super().predict(checked_inputs(self, x), *args, **kwargs)

    def predict_on_batch(self, x: Any) -> dict[str, Any]:
        return super().predict_on_batch(checked_inputs(self, x))

    def _arrays(self, x, y, options):
        """Inputs, labels and the options of `fit` as arrays. `sample_weight` may be a list too."""
        outputs = len(self.output)
        if options.get("sample_weight") is not None:
            options = options | {"sample_weight": lists_to_arrays(options["sample_weight"], outputs)}
        return checked_inputs(self, x), lists_to_arrays(y, outputs), options

    def _checked(self, x, y=None, sample_weight=None):
        """`x` if its labels are right, or a dataset with checks added to it."""
        if hasattr(x, "element_spec") and hasattr(x, "map"):
            return checked_dataset(self, x)
        if y is not None:
            check_targets(self, x, y, sample_weight)
        return x

    def quantize(
        self, mode: str | None = None, config: keras.quantizers.QuantizationConfig | None = None, **kwargs
    ) -> None:
        """`keras.Model.quantize` to int8: dense layers, segments and positions. The token embeddings stay as they are.

        A quantised model can predict, be exported, and be saved in kbert's format or as ``.keras``, but not be trained.

        Args:
            mode: "int8".
            config: None, or Keras' default configuration of int8.
            **kwargs: other arguments of `keras.Model.quantize`.

        Raises:
            ValueError: another mode, or a model with LoRA. The model is then left unchanged.
        """
        default = keras.quantizers.Int8QuantizationConfig().get_config()
        if mode != "int8" or (config is not None and config.get_config() != default):
            raise ValueError(
                f'{type(self).__name__}.quantize: kbert\'s models can be quantised with mode="int8" alone. '
                f"Received: mode={mode!r}, config={config!r}"
            )
        if lora_layers(self):
            raise ValueError(f"{type(self).__name__}.quantize: a model with LoRA. Call `merge_lora()` first.")
        with warnings.catch_warnings():
            # Keras names every kind of layer that has nothing to quantise.
            warnings.filterwarnings("ignore", message="Layer .* does not have a `quantize` method")
            super().quantize(mode, **kwargs)

    def enable_lora(
        self, rank: int, alpha: float | None = None, layers: str | Sequence[str] = ("query", "value")
    ) -> None:
        """Freezes the encoder and trains low-rank matrices in its place. Compile the model afterwards.

        At first the outputs do not change. A task's head on the encoder is trained as before. A ``.keras`` file keeps
        the matrices, exports and `kbert.save_pretrained` merge them, and `kbert.weights.save_adapter` writes only the
        matrices and the head.

        Args:
            rank: r, of the matrices A [H, r] and B [r, u] of a layer with u units.
            alpha: A B is multiplied by alpha / r. None: r.
            layers: some of ``query, key, value, attention/output, intermediate, feed_forward/output``.

        Raises:
            ValueError: an invalid rank, alpha or layer, or a model that already has LoRA or is quantised.

        Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models".
        """
        enable_lora(self, rank, alpha, layers)

    def merge_lora(self) -> None:
        """Adds LoRA's matrices to the encoder's kernels and removes them. The whole encoder is then trainable.

        Outputs do not change except for rounding. Compile the model afterwards.
        """
        merge_lora(self)

    def export(
        self,
        filepath: str | os.PathLike,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: list | None = None,
        **kwargs,
    ) -> None:
        """`keras.Model.export` with LoRA merged, and in a TensorFlow SavedModel every weight stored once.

        ``format="litert"`` writes a ``.tflite`` file for phones and ``format="onnx"`` a file for ONNX Runtime. Both
        take the model's inputs by name, in batches of any size and length, and need the extra ``mobile``.

        Args:
            filepath: the directory, or the file, to write.
            format: as in Keras: "tf_saved_model", "litert", "onnx", "openvino" or "torch".
            verbose: whether Keras says what it wrote.
            input_signature: as in Keras. None: the model's inputs, with their names.
            **kwargs: other arguments of Keras' exporter of this format.

        Raises:
            ValueError: a quantised model for LiteRT, which reads no int8 kernels of Keras, or what Keras refuses.
        """
        if lora_layers(self):
            return merged(self).export(filepath, format, verbose, input_signature, **kwargs)
        if format == "litert" and quantized_layers(self):
            raise ValueError(
                f"{type(self).__name__}.export: LiteRT cannot read Keras' int8 kernels. Received: a quantised model. "
                'Export the model from before `quantize` by export(..., format="litert", '
                "optimizations=[tf.lite.Optimize.DEFAULT]): LiteRT then makes int8 of it."
            )
        if keras.backend.backend() != "tensorflow":
            return super().export(filepath, format=format, verbose=verbose, input_signature=input_signature, **kwargs)
        if input_signature is None:  # Keras' own refuses a model that was not called yet, for ONNX
            input_signature = [
                {
                    name: keras.InputSpec(dtype=tensor.dtype, shape=tensor.shape, name=name)
                    for name, tensor in self.input.items()
                }
            ]
        if format != "tf_saved_model":
            return super().export(filepath, format=format, verbose=verbose, input_signature=input_signature, **kwargs)
        endpoint = {"serve": (lambda inputs: self(inputs, training=False), input_signature)}
        write_saved_model(filepath, endpoint)

    def own_values(self) -> dict[str, Any]:
        """The values of `own_arguments`, by name."""
        return {name: getattr(self, name) for name in self.own_arguments}

    def get_config(self) -> dict[str, Any]:
        # Not the graph of layers that keras.Model would store, but the arguments that build it again.
        if self.members:
            raise ValueError("an ensemble cannot be saved. Save its members, and average them when they are loaded.")
        config = self.own_values()
        if self.encoder is not self:
            config["encoder"] = serialize_shared(self.encoder)
        config["name"] = self.name
        config["trainable"] = self.trainable
        config["trainability"] = trainability(self)
        config["quantized_layers"] = quantized_layers(self)
        if lora := lora_layers(self):
            config["lora_layers"] = lora
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Self:
        config = dict(config)
        quantized = config.pop("quantized_layers", {})
        steps = config.pop("trainability", [])
        lora = config.pop("lora_layers", {})
        model = cls(**cls.deserialize_arguments(config))
        add_lora(model, lora)
        quantize_layers(model, quantized)
        set_trainability(model, steps)
        return model

    @classmethod
    def deserialize_arguments(cls, config: dict) -> dict:
        """The constructor's arguments from the result of `get_config`."""
        return {name: deserialize(value) if name == "encoder" else value for name, value in config.items()}
