"""Workarounds for Keras 3.15 and TensorFlow 2.21, and every use of their private API, which a new release may break.

Classes that exist because of what Keras 3.15 does stand in modules of their own, and say why: `ReplicaDropout` (Keras
drops the same positions on all replicas), the losses (Keras divides by the number of replicas, not by the weights),
`AdamW` (Keras clips each replica's part of the gradient), `losses_from_logits` (names of losses mean probabilities),
`write_saved_model` (Keras stores every weight twice).
"""

import contextlib
import functools
import importlib.util
import os
import pathlib
import random
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import keras

from kbert.errors import MissingPackage

if TYPE_CHECKING:
    import tensorflow as tf

    Tensor = Any  # those of different backends have no type in common
else:

    class Tensor:
        """What annotations call a tensor of the backend: of TensorFlow, JAX or PyTorch, or a `keras.KerasTensor`.

        Where it is an argument, also a NumPy array, and what else `keras.ops.convert_to_tensor` takes.
        """


def import_tensorflow_text() -> types.ModuleType:
    """The module tensorflow_text; an ImportError that names the environment variable with which it cannot be imported.

    It imports `tf.keras`. TensorFlow says then that Keras cannot be imported, and to check that it is installed.
    """
    value = os.environ.get("TF_USE_LEGACY_KERAS")
    if value in ("1", "true", "True") and importlib.util.find_spec("tf_keras") is None:
        raise MissingPackage(
            f"TF_USE_LEGACY_KERAS={value} makes TensorFlow look for Keras 2 (tf_keras), which is not installed, and "
            "tensorflow-text cannot be imported without it. kbert uses Keras 3: unset the variable.",
            name="tf_keras",
        )
    import tensorflow_text

    return tensorflow_text


@contextlib.contextmanager
def deferred_variables() -> Iterator[None]:
    """Variables that are made meanwhile get their first values at the end: by `set_value`, or from their initializer.

    A model of stored weights is then made without random values, which take time and, until they are replaced, memory.
    """
    from keras.src.backend.common import global_state, variables

    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
        variables.initialize_all_variables()
    finally:  # otherwise Keras would go on with them at the end of any later scope
        global_state.set_global_attribute("uninitialized_variables", [])


def set_value(variable: keras.Variable, read: Callable[[], Any]) -> None:
    """Assigns the values that a function returns; within `deferred_variables`, at its end."""
    from keras.src.backend.common.stateless_scope import in_stateless_scope

    if in_stateless_scope():
        variable._initializer = lambda shape, dtype: keras.ops.convert_to_tensor(read(), dtype)
    else:
        variable.assign(read())


class FreshFunctions:
    """Predicts and evaluates with the layers as they are now.

    Keras keeps the function that it traced when layers get LoRA or int8 kernels in another model around them, and goes
    on answering with the old kernels.
    """

    def make_predict_function(self, force: bool = False) -> Callable[..., Any]:
        return super().make_predict_function(self._layers_changed("predict") or force)

    def make_test_function(self, force: bool = False) -> Callable[..., Any]:
        return super().make_test_function(self._layers_changed("test") or force)

    def _layers_changed(self, function: str) -> bool:
        """Whether layers have other kernels than when this was last asked for a function."""
        forms = [
            (getattr(layer, "lora_enabled", False), getattr(layer, "lora_count", 0), layer.quantization_mode)
            for layer in all_layers(self)
        ]
        traced = self.__dict__.setdefault("_kernels_of_functions", {})  # neither tracked nor saved by Keras
        is_changed = traced.get(function, forms) != forms
        traced[function] = forms
        return is_changed


class KerasFiles:
    """Refuses to be saved as HDF5: Keras writes such a file, and then does not find kbert's classes to load it."""

    def save(self, filepath: str | os.PathLike, *args, **kwargs) -> None:
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ValueError(
                f"{type(self).__name__}.save: Keras cannot load kbert's models from HDF5 files. Received: "
                f"{str(filepath)!r}. Save a `.keras` file, or the weights alone by save_weights('x.weights.h5')"
            )
        super().save(filepath, *args, **kwargs)


@keras.saving.register_keras_serializable("kbert")
class CompatibleModel(KerasFiles, FreshFunctions, keras.Model):
    """A `keras.Model` that trains under strategies, and on datasets of any length.

    To learn the shapes of a batch, Keras' `fit` takes the mean over replicas of one, which fails on bool masks, and
    with several workers on any batch (keras issue 20585). Here one replica's part of the batch does. Without a
    strategy, Keras creates the optimizer's variables and those of several losses while it traces the first step, and
    TensorFlow then traces that step a second time; here they exist before. On an empty dataset Keras trains and
    evaluates nothing without a word, or run eagerly fails on its metrics. Of a dataset of unknown length Keras asks for
    one batch too many: the step that finds none has counted a batch of a static size by then, so that the mean of the
    loss is too low; here a step begins once it has its batch. Keras' optimizers sum gradients over replicas with
    `ReplicaContext.all_reduce`, which keeps the model in memory; here they use `all_reduce_sum`.

    Raises:
        ValueError: on `fit` and `evaluate`, a dataset without a batch.
    """

    # AutoGraph leaves a model alone in a user's own `tf.function`, as it does Keras' classes, and does not warn.
    autograph_info__ = {}

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        if self._distribute_strategy is None:
            return self._build_loss_and_metrics(iterator, data_batch)
        if iterator is not None:
            parts_of = self._distribute_strategy.experimental_local_results
            _, _, batches = next(iter(iterator))
            data_batch = keras.tree.map_structure(lambda value: parts_of(value)[0], next(batches))
            iterator = None
        super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)

    def _build_loss_and_metrics(self, iterator, data_batch):
        unbuilt = [part for part in (self._compile_loss, self._compile_metrics) if part is not None and not part.built]
        if not unbuilt or self.run_eagerly or not isinstance(self.output, dict):
            return
        batch = data_batch if iterator is None else iterator._distributed_dataset.element_spec
        _, labels, _ = keras.utils.unpack_x_y_sample_weight(batch)
        if hasattr(labels, "shape") and len(self.output) == 1:
            labels = dict.fromkeys(self.output, labels)
        if isinstance(labels, dict) and labels.keys() == self.output.keys():  # else Keras finds what belongs together
            for part in unbuilt:
                part.build(labels, self.output)

    def make_train_function(self, force: bool = False) -> Callable[..., Any]:
        if keras.backend.backend() == "tensorflow" and self.optimizer is not None:
            base_optimizer(self.optimizer)._all_reduce_sum_gradients = _sum_gradients
            if not self.optimizer.built:
                with self.distribute_strategy.scope():
                    self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def fit(self, x: Any = None, *args, validation_data: Any = None, **kwargs) -> keras.callbacks.History:
        ends = _ends_unannounced(x) and not kwargs.get("steps_per_epoch")
        ends = ends or (_ends_unannounced(validation_data) and not kwargs.get("validation_steps"))
        self._wait_for_batches(ends, "train", "test")
        return super().fit(x, *args, validation_data=validation_data, **kwargs)

    def evaluate(self, x: Any = None, *args, **kwargs) -> float | list[float] | dict[str, float]:
        if not is_within_fit(kwargs):
            self._wait_for_batches(_ends_unannounced(x) and not kwargs.get("steps"), "test")
        return super().evaluate(x, *args, **kwargs)

    def _wait_for_batches(self, waits: bool, *functions: str) -> None:
        """Whether steps wait for their batch, at an eighth of the time: where the end of the data is not known.

        A callback may evaluate in the middle of a `fit`, whose function stays as it is.
        """
        before = self.__dict__.setdefault("_waits", {"train": False, "test": False})  # not tracked or saved by Keras
        for name in functions:
            if before[name] != waits:
                before[name] = waits
                setattr(self, f"{name}_function", None)

    def _make_function(self, step_function, *args, **kwargs):
        name = "train" if step_function == self.train_step else "test"
        if self.__dict__.get("_waits", {}).get(name):
            step_function = _after_its_batch(step_function)
        return super()._make_function(step_function, *args, **kwargs)

    def _get_metrics_result_or_logs(self, logs):
        if not logs:  # of the first epoch, or of an evaluation
            is_validation = getattr(self, "_eval_epoch_iterator", None) is not None
            self._eval_epoch_iterator = None  # the next `fit` has other data
            name = f"{type(self).__name__}: `{'validation_data' if is_validation else 'x'}`"
            raise ValueError(f"{name} must have at least one batch. Received: an empty dataset")
        return super()._get_metrics_result_or_logs(logs)


class ShowModel(keras.callbacks.Callback):
    """Shows other callbacks `model`, although `fit` trains another one within it, as in `kbert.Pipeline`.

    It comes after them. `model` has the attributes of the trained one that they read and set, such as `stop_training`.
    """

    def __init__(self, model: keras.Model, callbacks: Sequence[keras.callbacks.Callback]):
        super().__init__()
        self.shown, self.callbacks = model, callbacks

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        for callback in self.callbacks:
            callback.set_model(self.shown)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.model._initial_epoch = self.shown._initial_epoch  # set by `keras.callbacks.BackupAndRestore`

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self.model._initial_epoch = self.shown._initial_epoch = None  # Keras would keep it for the next `fit`


def _ends_unannounced(data) -> bool:
    """Whether it is a tf.data.Dataset whose number of batches is not known."""
    cardinality = getattr(data, "cardinality", None)
    return keras.backend.backend() == "tensorflow" and callable(cardinality) and int(cardinality()) == -2


def _after_its_batch(step_function):
    """A step of which nothing runs before its batch is there."""
    import tensorflow as tf

    def step(data):
        with tf.control_dependencies([part for part in tf.nest.flatten(data) if tf.is_tensor(part)]):
            return step_function(data)

    return step


def is_within_fit(options: Mapping[str, Any]) -> bool:
    """Whether `fit` calls `evaluate`, of these options."""
    return bool(options.get("_use_cached_eval_dataset"))


def split_rows(columns: tuple, fraction: float) -> tuple[tuple, tuple]:
    """The first rows of arrays, dicts of arrays or None, and the last ones, as `fit` splits off validation data."""
    from keras.src.trainers.data_adapters.array_slicing import train_validation_split

    return train_validation_split(columns, fraction)


def pass_inputs_unchanged(layer: keras.layers.Layer) -> None:
    """A layer's call gets its inputs as they are given: strings, lists, int64 keys, logits of any dtype.

    Keras otherwise makes tensors of its backend of them, casts floats to the layer's compute dtype, and refuses lists
    as positional arguments.
    """
    layer._convert_input_args = False
    layer._allow_non_tensor_positional_args = True


def set_direction(metric: keras.metrics.Metric, direction: Literal["up", "down"]) -> None:
    """Sets whether a metric should go "up" or "down": callbacks that watch it fail without it after the first epoch."""
    metric._direction = direction


def set_untracked(layer: keras.layers.Layer, name: str, value: Any) -> None:
    """Sets a plain Python attribute that Keras neither tracks nor saves, such as a tokenizer beside a model."""
    layer.__dict__[name] = value


def all_layers(layer: keras.layers.Layer, include_self: bool = True) -> list:
    """A layer and all layers in it, each once."""
    return list(layer._flatten_layers(include_self=include_self))


def layer_variables(layer: keras.layers.Layer) -> list:
    """The variables of a layer itself, frozen (which `layer.trainable_variables` leaves out) or not."""
    return layer._trainable_variables


class OptimizerOfAll(keras.optimizers.Optimizer):
    """An optimizer whose `update_all(gradients, variables, learning_rate)` clips, decays and updates, all at once.

    Keras clips and decays before, by functions of its own.
    """

    def index_of(self, variable: keras.Variable) -> int:
        """The place of a variable among those that the optimizer was built for."""
        return self._get_variable_index(variable)

    def _clip_gradients(self, grads):
        return grads

    def _apply_weight_decay(self, variables):
        pass

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        self.update_all(grads, trainable_variables, learning_rate)


def base_optimizer(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """The optimizer that updates the weights: with the policy mixed_float16 Keras wraps the one of `compile`."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def learning_rate_of(
    optimizer: keras.optimizers.Optimizer,
) -> keras.Variable | keras.optimizers.schedules.LearningRateSchedule:
    """The variable or schedule of an optimizer's learning rate; its `learning_rate` is the next update's value."""
    return optimizer._learning_rate


def deserialize(value: Any) -> Any:
    """A layer or model from its serialised config; anything else is returned as it is.

    kbert's classes put other layers into `get_config` as they are. Keras serialises them when it saves, and then stores
    once what two layers share, as a tokenizer, which it does not with configs serialised by hand; and `from_config` of
    a config that was never serialised shares them.
    """
    return keras.saving.deserialize_keras_object(value) if isinstance(value, dict) else value


def serialize_shared(layer: keras.layers.Layer) -> dict:
    """`keras.saving.serialize_keras_object`, of a layer that others of the same file may use too.

    For a config that does not share the layer: ``type(model).from_config(model.get_config())`` is a new model. In a
    file Keras marks a config when it meets the layer again, too late where the first config, as that of a nested
    layer, has been copied by then. So this meets it twice; where nothing is being saved, neither is marked.
    """
    keras.saving.serialize_keras_object(layer)
    return keras.saving.serialize_keras_object(layer)


def dense_kernel(dense: keras.layers.Dense) -> keras.Variable:
    """The variable of a dense layer, to which `dense.kernel` adds LoRA's matrices."""
    return dense._kernel


def delete_attribute(layer: keras.layers.Layer, name: str) -> None:
    """`del layer.name`, without Keras' garbage collection for each variable.

    Each takes a third of a second where TensorFlow is loaded, and has nothing to free: variables are in no cycles.
    """
    value = getattr(layer, name)
    if isinstance(value, keras.Variable):
        layer._untrack_variable(value)
    super(keras.layers.Layer, layer).__delattr__(name)


def strategy_of(model: keras.Model) -> "tf.distribute.Strategy | None":
    """The `tf.distribute` strategy that a model was built under, the default one too; None on other backends."""
    return getattr(model, "distribute_strategy", None)


def strategy_scope(model: keras.Model) -> contextlib.AbstractContextManager[Any]:
    """The scope of the `tf.distribute` strategy that a model was built under; of no effect on other backends."""
    strategy = strategy_of(model)
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def sync_state(model: keras.Model) -> None:
    """Gives a model that `fit` is training its current values, which JAX keeps elsewhere until an epoch ends."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


def with_known_length(dataset: "tf.data.Dataset", count: int) -> "tf.data.Dataset":
    """A `tf.data.Dataset` that says how many batches it has: Keras warns at the end of one of unknown length."""
    import tensorflow as tf

    return dataset.apply(tf.data.experimental.assert_cardinality(count))


def custom_gradient(backward: Callable[..., Sequence[Tensor]]) -> Callable[[Callable[..., Any]], Callable[..., Tensor]]:
    """`tf.custom_gradient` without its memory leak, as a decorator.

    In a graph, `tf.custom_gradient` registers a closure for every call and never frees it. The closure refers to the
    graph, which refers to the model's variables, so every trained model would stay in memory (TensorFlow issues 27492
    and 97697). Here each decorated function registers one gradient, once. That gradient reads its tensors from the
    inputs of an operation instead of a closure.

    Args:
        backward: takes (upstream, *inputs, *saved) and returns the gradients of the first inputs. The remaining inputs
            have none.

    Returns:
        A decorator of functions on the module level, each of which takes tensors and returns (output, saved): a tensor
        and a tuple of tensors. The decorated function returns the output.
    """

    def decorate(forward):
        name = f"{forward.__module__}.{forward.__qualname__}"

        @functools.cache
        def register():
            import tensorflow as tf

            @tf.RegisterGradient(name)
            def gradient(operation, upstream, *_):
                if operation is None:  # `tf.saved_model.save` traces gradients without their operations
                    raise NotImplementedError(f"The gradient of {name} cannot be saved.")
                gradients = backward(upstream, *operation.inputs[1:])
                return None, *gradients, *[None] * (len(operation.inputs) - 1 - len(gradients))

        @functools.wraps(forward)
        def call(*inputs):
            import tensorflow as tf

            if tf.executing_eagerly():
                return _custom_gradient_of_step(forward, backward)(*inputs)
            register()
            inputs = [tf.convert_to_tensor(tensor) for tensor in inputs]
            output, saved = forward(*inputs)
            tensors = [output, *inputs, *saved]
            with tf.compat.v1.get_default_graph().gradient_override_map({"IdentityN": name}):
                passed = tf.raw_ops.IdentityN(input=tensors)
            with tf.name_scope(""):  # as in `tf.custom_gradient`: names decide in which order TensorFlow sums gradients
                tf.__internal__.record_gradient(name, tensors, (), passed)  # for tapes
            return passed[0]

        return call

    return decorate


def _custom_gradient_of_step(forward, backward):
    """The same outside of graphs, where `tf.custom_gradient` keeps nothing."""
    import tensorflow as tf

    @tf.custom_gradient
    def call(*inputs):
        output, saved = forward(*inputs)

        def gradient(upstream):
            gradients = backward(upstream, *inputs, *saved)
            return [*gradients, *[None] * (len(inputs) - len(gradients))]

        return output, gradient

    return call


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within this context, new layers get the initial weights and dropout seeds that `seed` determines.

    Keras draws both from Python's `random`, whose state belongs to the user and is restored.
    (`keras.utils.set_random_seed` also resets the states of NumPy and TensorFlow.)
    """
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def in_tensorflow_graph() -> bool:
    """Whether TensorFlow builds a graph now, in place of computing."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()


def stored_value(variable: keras.Variable) -> Any:
    """The backend's variable; `variable.value` in a layer of mixed precision is a copy in the compute dtype."""
    return variable._value


def all_reduce_sum(values: Sequence[Tensor]) -> list[Tensor]:
    """The sum over all replicas of each tensor, on every replica. It has no gradient of its own.

    `ReplicaContext.all_reduce` has a gradient and therefore the leak described in `custom_gradient`.
    """
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    total = tf.distribute.ReduceOp.SUM

    def reduce(strategy, *values):
        return strategy.extended.batch_reduce_to(total, [(value, _destination(value)) for value in values])

    if context.strategy.extended._use_merge_call():
        return list(context.merge_call(reduce, args=values))
    return list(context.strategy.extended._replica_ctx_all_reduce(total, values))


def _sum_gradients(gradients_and_variables):
    """What `_all_reduce_sum_gradients` of Keras' optimizers does."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return list(gradients_and_variables)
    gradients, variables = zip(*gradients_and_variables, strict=True)
    return list(zip(all_reduce_sum(gradients), variables, strict=True))


def gather_rows(value: Tensor) -> Tensor:
    """The rows of all replicas of a tensor, on every replica. The gradient is the caller's to define.

    `ReplicaContext.all_gather` has a gradient and therefore the leak described in `custom_gradient`.
    """
    import tensorflow as tf

    def gather(strategy, value):
        return strategy.extended._batch_gather_to([(value, _destination(value))], 0)[0]

    return tf.distribute.get_replica_context().merge_call(gather, args=[value])


def _destination(value):
    """Where a reduced value goes: to the devices of the replicas' values, or on a TPU to its one device."""
    import tensorflow as tf

    return value.device if isinstance(value, tf.Tensor) else value


def merge_replicas(function: Callable[..., Any], *arguments) -> None:
    """Calls `function(strategy, *arguments)` once for all replicas of the current `tf.distribute` strategy.

    As Keras' optimizers do: the public `ReplicaContext.merge_call` is refused in loops and conditions, also where one
    replica does not need it.
    """
    import tensorflow as tf

    tf.__internal__.distribute.interim.maybe_merge_call(function, tf.distribute.get_strategy(), *arguments)


def multiworker_strategy() -> "tf.distribute.MultiWorkerMirroredStrategy":
    """A `tf.distribute.MultiWorkerMirroredStrategy` under which Keras trains.

    After each step Keras asks for the mean of scalars along their first axis, which TensorFlow refuses where there are
    several workers (tensorflow issue 72388). Here it is their mean over replicas.
    """
    import tensorflow as tf

    class MultiWorkerMirroredStrategy(tf.distribute.MultiWorkerMirroredStrategy):
        def reduce(self, reduce_op, value, axis):
            is_mean = str(reduce_op).upper().endswith("MEAN")
            if is_mean and axis == 0 and all(local.shape.rank == 0 for local in self.experimental_local_results(value)):
                axis = None
            return super().reduce(reduce_op, value, axis)

    return MultiWorkerMirroredStrategy()


def limit_waiting_for_workers(cluster: Mapping[str, Sequence[str]], start_seconds: int, silence_seconds: int) -> None:
    """TensorFlow gives up on workers that do not start, or are silent, for so long; before the strategy is made.

    There is no public way to set the limits; TensorFlow's own are an hour.
    """
    from tensorflow.python.distribute import multi_worker_util
    from tensorflow.python.eager import context

    job = context.coordination_config_pb2.CoordinatedJob
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=multi_worker_util.coordination_leader(cluster),
        coordinated_jobs=[
            job(name=name, num_tasks=len(cluster[name])) for name in ("chief", "worker") if name in cluster
        ],
        cluster_register_timeout_in_ms=1000 * start_seconds,
        heartbeat_timeout_in_ms=1000 * silence_seconds,
    )


def is_tensorflow_op(name: str) -> bool:
    """Whether an op is TensorFlow's own. (Others have a name space, or are unknown as long as nobody loads them.)"""
    from tensorflow.python.framework import op_def_registry

    return ">" not in name and op_def_registry.get(name) is not None


def is_pattern(path: str | os.PathLike) -> bool:
    """Whether TensorFlow, which looks for checkpoints by glob, takes a path for a pattern that does not match it."""
    path = os.path.abspath(path)
    return "\\" in path or "]" in path.partition("[")[2]


@contextlib.contextmanager
def without_pattern(path: str | os.PathLike) -> Iterator[str]:
    """A path that TensorFlow can read in place of `path`, a directory or the prefix of files, while the context lasts.

    Symbolic links in a temporary directory lead to the files of a path that `is_pattern`.
    """
    if not is_pattern(path):
        yield os.fspath(path)
        return
    path = pathlib.Path(path).absolute()
    with tempfile.TemporaryDirectory() as directory:
        for file in path.parent.iterdir():
            if file.name.startswith(path.name):
                os.symlink(file, os.path.join(directory, "linked" + file.name.removeprefix(path.name)))
        yield os.path.join(directory, "linked")
