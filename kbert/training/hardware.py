"""Device, strategy, precision and XLA: everything that depends on the machine is decided here."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import keras

from kbert.errors import SetupError
from kbert.keras_compat import limit_waiting_for_workers, multiworker_strategy, strategy_of
from kbert.options import Count, Precision, Strategy, Xla, checked
from kbert.training.jax_devices import choose_jax_devices
from kbert.training.memory import keep_freed_memory
from kbert.training.workers import (
    SILENCE_SECONDS,
    START_SECONDS,
    LostWorker,
    addresses_of,
    await_workers,
    check_tf_config,
    message_of_first,
    named_losses,
)

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Hardware:
    """What `choose_hardware` decided.

    Attributes:
        strategy: the `tf.distribute.Strategy` to build and train under; None on the JAX backend, where the devices are
            Keras' global distribution.
        name: "one", "mirrored", "multiworker" or "tpu".
        replicas: int, how many share a batch.
        precision: the Keras dtype policy of what is built in `scope`.
        jit_compile: bool, for `model.compile(jit_compile=...)`; explicit, as Keras' "auto" changes with the machine.
        reasons: one line for each decision.

    Raises:
        RuntimeError: on `wait_for_all`, where worker 0 stopped the run or a worker was lost.
    """

    strategy: object
    name: str
    replicas: int
    precision: str
    jit_compile: bool
    reasons: tuple[str, ...]

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """The context in which to build, load and compile a model; the global dtype policy is then as before."""
        policy = keras.config.dtype_policy()
        keras.config.set_dtype_policy(self.precision)
        try:
            with self.strategy.scope() if self.strategy is not None else contextlib.nullcontext():
                yield
        finally:
            keras.config.set_dtype_policy(policy)  # the caller's; layers keep theirs

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the shared files of a run; True for a single process."""
        return self.strategy is None or self.strategy.extended.should_checkpoint

    def check_batch_sizes(self, *sizes: int, accumulate: int = 1, is_even: bool = False) -> None:
        """Raises ValueError unless the replicas can divide such batches into micro-batches, or, `is_even`, among them.

        On JAX they must always divide a batch evenly.
        """
        parts = accumulate * self.replicas if accumulate > 1 or is_even or self.strategy is None else 1
        if wrong := sorted({size for size in sizes if size % parts}):
            factors = [f"`accumulate`, {accumulate}"] * (accumulate > 1)
            factors += [f"the {self.replicas} replicas"] * (self.replicas > 1)
            raise ValueError(f"A batch size must be a multiple of {' times '.join(factors)}. Received: {wrong}")

    @property
    def padding(self) -> str:
        """How batches are padded: few shapes where each is compiled, one on a TPU."""
        return "full" if self.name == "tpu" else "bucket" if self.jit_compile else "longest"

    def wait_for_all(self, problem: str | None = None) -> None:
        """Waits until every worker has reached this point, and learns of a problem of worker 0.

        Args:
            problem: on worker 0: why the run cannot continue; it then raises its own error after this call.

        Raises:
            RuntimeError: on the other workers, with worker 0's problem.
            LostWorker: a worker ended before it reached this point.
        """
        message = self.of_chief(problem or "")
        if message and not self.is_chief:
            raise SetupError(f"Worker 0 stopped the run: {message}")

    def of_chief(self, message: str) -> str:
        """The message that worker 0 gives here, on every worker."""
        if self.name != "multiworker":
            return message
        with named_losses():
            return message_of_first(self.strategy, message)

    def describe(self) -> str:
        """What was chosen and why, one line each, for printing at the start of a run."""
        return "\n".join(("Hardware:", *(f"  {reason}" for reason in self.reasons)))


@checked
def choose_hardware(
    strategy: Strategy = "auto",
    precision: Precision = "auto",
    xla: Xla = "auto",
    logical_cpus: Count | None = None,
    source: Any = None,
) -> Hardware:
    """Chooses how this process trains, and sets up its devices; call it before building anything.

    A process has one strategy of each kind: a second call with the same `strategy` returns the same one.

    Args:
        strategy: "auto" takes a TPU if there is one, all GPUs if there are several, else one device. "mirrored": all
            GPUs of this machine, without GPUs its (logical) CPU devices; on JAX all devices of the kind that it
            prefers. "multiworker": the machines that TF_CONFIG names. "tpu": the TPU that TPU_NAME names, or the local
            one.
        precision: a Keras dtype policy. "auto" is the global one (`keras.config.set_dtype_policy`) unless that is
            float32; then float32 on a CPU, bfloat16 on a TPU or a GPU that has it, else float16 on GPUs with tensor
            cores. Weights, normalisation statistics and losses are always float32.
        xla: "auto" is on for one GPU, else off. "on" with several replicas compiles the forward and the backward pass
            inside each of them (of kbert's models; Keras itself would compile the strategy's code, and fail).
        logical_cpus: the number of logical devices to split the CPU into; with two, "mirrored" can be tried and
            tested without GPUs.
        source: what is going to be trained: a model or a pipeline has its own policy, which is then the precision, and
            one that was built without replicas is trained by "auto" on one GPU; the path of one, or None, has none.

    Where steps run on the CPU, the C library is told to keep freed memory (`kbert.training.memory`), unless
    `MALLOC_...` variables are set.

    Returns:
        `Hardware`; print its `.describe()`.

    Raises:
        ValueError: an unknown choice, a number that is not a positive integer, choices that cannot be combined, another
            `precision` than that of the `source`, or replicas that it was not built for, an invalid TF_CONFIG.
        RuntimeError: the requested hardware does not exist, or TensorFlow has already been initialised.

    Example::

        hardware = choose_hardware("auto")
        print(hardware.describe())
        with hardware.scope():
            model = BertClassifier(config)
            model.compile(AdamW(2e-5), jit_compile=hardware.jit_compile)
    """
    if keras.backend.backend() != "tensorflow":
        return _on_jax(strategy, precision, xla, logical_cpus, source)
    _prepare_devices(logical_cpus or 0)
    gpus = _gpus()
    own = strategy_of(getattr(source, "model", source)) if isinstance(source, keras.Model) else None
    name, why = _choose_name(strategy, gpus, own)
    if not gpus and name != "tpu":  # on other devices the C library has no large tensors, but many threads on one arena
        keep_freed_memory()
    built = make_strategy(name)
    _check_replicas(name, built, own)
    devices = _describe_devices(name, built, gpus)
    policy, policy_why = _choose_precision(precision, source, *_best_precision(name, gpus))
    jit_compile, xla_why = _choose_xla(xla, name, gpus)
    reasons = (
        f"strategy {name}: {devices} ({why})",
        f"precision {policy} ({policy_why})",
        f"XLA {'on' if jit_compile else 'off'} ({xla_why})",
    )
    return Hardware(built, name, built.num_replicas_in_sync, policy, jit_compile, reasons)


def _on_jax(strategy: str, precision: str, xla: str, logical_cpus: int | None, source) -> Hardware:
    name, replicas, devices, platform, capabilities = choose_jax_devices(strategy, logical_cpus)
    policy, why = _choose_precision(precision, source, *_best_precision(platform, capabilities))
    jit_compile = xla != "off"
    reasons = (
        f"strategy {name}: {devices}",
        f"precision {policy} ({why})",
        f"XLA {'on' if jit_compile else 'off'} ({'JAX compiles the step' if xla == 'auto' else 'asked for'})",
    )
    return Hardware(None, name, replicas, policy, jit_compile, reasons)


def _prepare_devices(logical_cpus: int) -> None:
    import tensorflow as tf

    try:
        cpu = tf.config.list_physical_devices("CPU")[0]
        configured = tf.config.get_logical_device_configuration(cpu)
        if logical_cpus > 1 and len(configured or ()) != logical_cpus:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * logical_cpus)
    except RuntimeError as error:
        raise SetupError(
            "choose_hardware: `logical_cpus` must be set before TensorFlow computes anything. "
            f"Received: {logical_cpus} in a process that has already started it. Call choose_hardware first."
        ) from error
    for gpu in tf.config.list_physical_devices("GPU"):
        with contextlib.suppress(RuntimeError):  # already started: it keeps the setting it has
            tf.config.experimental.set_memory_growth(gpu, True)


def _gpus() -> list[tuple[int, int]]:
    """Compute capability of each GPU, (0, 0) where unknown."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    return [tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0)) for gpu in gpus]


def _choose_name(strategy: str, gpus: list, own: "tf.distribute.Strategy | None" = None) -> tuple[str, str]:
    """The name and its reason; `own` is the strategy of a model that is given."""
    import tensorflow as tf

    if strategy == "multiworker" and len(addresses_of(check_tf_config(os.environ.get("TF_CONFIG"))[0])) == 1:
        return _mirrored_or_one(gpus, "TF_CONFIG names one worker")
    if strategy == "mirrored":
        return _mirrored_or_one(gpus, "asked for")
    if strategy != "auto":
        return strategy, "asked for"
    if os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU"):
        return "tpu", "auto: there is a TPU"
    if isinstance(own, tf.distribute.MirroredStrategy) and own.num_replicas_in_sync > 1:
        return "mirrored", "auto: the given model was built so"
    if len(gpus) > 1 and own is not None and own.num_replicas_in_sync == 1:
        return "one", "auto: the given model was built for one device"
    if len(gpus) > 1:
        return "mirrored", f"auto: there are {len(gpus)} GPUs"
    return "one", f"auto: there is {'one GPU' if gpus else 'no GPU'}"


def _mirrored_or_one(gpus: list, why: str) -> tuple[str, str]:
    """One device needs no mirrored strategy (under which Keras misreads rebatched datasets)."""
    import tensorflow as tf

    if len(gpus) > 1 or (not gpus and len(tf.config.list_logical_devices("CPU")) > 1):
        return "mirrored", why
    device = "GPU" if gpus else "CPU device, which logical_cpus (--logical-cpus 2) would split"
    return "one", f"{why}, but there is one {device}"


def _check_replicas(name: str, built: "tf.distribute.Strategy", own: "tf.distribute.Strategy | None") -> None:
    """Raises ValueError if a model that is given, with its `own` strategy, has no variables on these replicas."""
    if own is None or own is built or own.num_replicas_in_sync == built.num_replicas_in_sync == 1:
        return
    raise ValueError(
        "choose_hardware: a model that is given must have been built for the replicas that train it: with "
        f"hardware = choose_hardware({name!r}), in `with hardware.scope():`. Received: strategy {name} with "
        f"{built.num_replicas_in_sync}, and a model that was built for {own.num_replicas_in_sync} in another strategy. "
        "Build or load it so, or give its path."
    )


def _describe_devices(name: str, strategy, gpus: list) -> str:
    if name == "one":
        cores = usable_cores()
        return "one GPU" if gpus else f"the CPU, {cores} core{'s' if cores > 1 else ''}"
    if name == "tpu":
        return f"{strategy.num_replicas_in_sync} replicas on TPU cores"
    kind = "GPUs" if gpus else "CPU devices"
    return f"{strategy.num_replicas_in_sync} replicas on {kind}"


def usable_cores() -> int:
    """The number of CPU cores on which this process may run: fewer than the machine has under `taskset` or Slurm."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _choose_precision(precision: str, source, best: str, why: str) -> tuple[str, str]:
    """The policy and its reason; `best` suits the device, and `why` says so."""
    if isinstance(source, keras.Model):
        own = getattr(source, "model", source).dtype_policy.name  # of a pipeline its model's
        if precision not in ("auto", own):
            raise ValueError(
                f"choose_hardware: a model that is given keeps its own dtype policy: `precision` must be {own!r} or "
                f'"auto". Received: {precision!r}. To change it, load the model with '
                f"kbert.load_pretrained(source, dtype={precision!r})."
            )
        return own, "that of the given model"
    if precision != "auto":
        return precision, "asked for"
    if (policy := keras.config.dtype_policy().name) != "float32":
        return policy, "auto: the global dtype policy"
    return best, f"auto: {why}"


def _best_precision(kind: str, gpus: list) -> tuple[str, str]:
    """The policy that suits a "tpu", GPUs of these compute capabilities, or without them a CPU."""
    if kind == "tpu":
        return "mixed_bfloat16", "a TPU multiplies bfloat16"
    if not gpus:
        return "float32", "on a CPU bfloat16 may be faster or slower: recipes/benchmarks measures it"
    if min(gpus) >= (8, 0):
        return "mixed_bfloat16", f"compute capability {min(gpus)} has bfloat16 tensor cores"
    if min(gpus) >= (7, 0) and keras.backend.backend() == "tensorflow":
        return "mixed_float16", f"compute capability {min(gpus)} has float16 tensor cores"
    return "float32", f"compute capability {min(gpus)} has no bfloat16 tensor cores"


def _choose_xla(xla: str, name: str, gpus: list) -> tuple[bool, str]:
    if name == "tpu":
        return False, "the TPU strategy compiles by itself"
    if xla != "auto":
        inside = ": forward and backward pass, inside each replica" if xla == "on" and name != "one" else ""
        return xla == "on", f"asked for{inside}"
    if name != "one":
        return False, "auto: several replicas"
    return (True, "auto: one GPU") if gpus else (False, "auto: on a CPU it takes long to compile and gains little")


@functools.cache
def make_strategy(name: str) -> "tf.distribute.Strategy":
    """The strategy of this process, made once: a TPU's second initialisation loses its models."""
    import tensorflow as tf

    if name == "one":
        return tf.distribute.get_strategy()
    if name == "multiworker":
        return _multiworker()
    if name == "tpu":
        return _tpu()
    if tf.config.list_physical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    return tf.distribute.MirroredStrategy(
        [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices("CPU")]
    )


def _multiworker():
    cluster, task = check_tf_config(os.environ.get("TF_CONFIG"))
    await_workers(cluster, task)
    limit_waiting_for_workers(cluster, START_SECONDS, SILENCE_SECONDS)
    try:
        with named_losses():
            return multiworker_strategy()
    except LostWorker:
        raise
    except RuntimeError as error:
        raise SetupError(
            "choose_hardware: the multi-worker strategy must be made before TensorFlow computes anything. "
            f"Call choose_hardware first. Received: {error}"
        ) from error


def _tpu():
    import tensorflow as tf

    name = os.environ.get("TPU_NAME") or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except Exception as error:  # any error of the resolver: no library, no device, no such name
        raise SetupError(
            f"choose_hardware: strategy tpu needs a TPU; tried TPUClusterResolver(tpu={name!r}) "
            f"({'from' if os.environ.get('TPU_NAME') else 'no'} TPU_NAME in the environment). TensorFlow reaches TPUs "
            "through the package tensorflow-tpu (2.20) instead of tensorflow. "
            f"Received: {type(error).__name__}: {error}"
        ) from error


def processor_only() -> None:
    """Hides GPUs from TensorFlow, which would take all their memory when it first computes something.

    Call it before anything is computed. Where TensorFlow already uses them, nothing changes.
    """
    import tensorflow as tf

    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError:
        pass  # it has been initialised
