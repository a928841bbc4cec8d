"""The choice of device, strategy, precision and XLA; what needs another process is in test_mirrored."""

import dataclasses
import json
import os

import keras
import pytest
import tensorflow as tf
from helpers.run_python import run_python
from helpers.slow_but import slow_but
from helpers.tiny_bert import tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.training import hardware
from kbert.training.hardware import Hardware, choose_hardware, processor_only
from kbert.training.workers import check_tf_config

CLUSTER = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}


@pytest.fixture(autouse=True)
def _policy():
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def no_accelerator(monkeypatch):
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has a GPU")
    monkeypatch.delenv("TPU_NAME", raising=False)
    monkeypatch.delenv("TF_CONFIG", raising=False)


def test_cores_are_those_that_the_process_may_use(no_accelerator, monkeypatch):
    for cores, text in (({3}, "the CPU, 1 core "), ({0, 1, 5}, "the CPU, 3 cores ")):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: cores)
        assert text in choose_hardware().describe()


def test_auto_without_accelerator(no_accelerator):
    chosen = choose_hardware()
    assert (chosen.name, chosen.replicas, chosen.precision, chosen.jit_compile) == ("one", 1, "float32", False)
    assert chosen.describe().splitlines() == [
        "Hardware:",
        f"  strategy one: the CPU, {len(os.sched_getaffinity(0))} cores (auto: there is no GPU)",
        "  precision float32 (auto: on a CPU bfloat16 may be faster or slower: recipes/benchmarks measures it)",
        "  XLA off (auto: on a CPU it takes long to compile and gains little)",
    ]
    with chosen.scope():
        assert not tf.distribute.has_strategy()


def policy():
    return keras.config.dtype_policy().name


def test_precision_is_the_policy_of_the_scope(no_accelerator):
    chosen = choose_hardware("one", precision="mixed_bfloat16", xla="on")
    assert policy() == "float32"
    with chosen.scope():
        assert policy() == chosen.precision == "mixed_bfloat16"
    with pytest.raises(ZeroDivisionError), chosen.scope():
        1 / 0  # noqa: B018
    assert policy() == "float32"
    assert chosen.jit_compile and "XLA on (asked for)" in chosen.describe()


def test_a_global_policy_is_kept(no_accelerator):
    keras.config.set_dtype_policy("mixed_bfloat16")
    chosen = choose_hardware()
    assert chosen.precision == "mixed_bfloat16" and "(auto: the global dtype policy)" in chosen.describe()
    assert choose_hardware(precision="float32").precision == "float32"
    assert policy() == "mixed_bfloat16"


def test_a_model_keeps_its_own_policy(no_accelerator):
    model = kbert.BertClassifier(tiny_config(num_layers=1), dtype="mixed_bfloat16")
    for source in (model, kbert.build_pipeline(model, tiny_tokenizer())):
        chosen = choose_hardware(source=source)
        assert chosen.precision == "mixed_bfloat16" and "(that of the given model)" in chosen.describe()
        assert choose_hardware(precision="mixed_bfloat16", source=source).precision == "mixed_bfloat16"
        with pytest.raises(ValueError, match=r"`precision` must be 'mixed_bfloat16' or \"auto\". Received: 'float32'"):
            choose_hardware(precision="float32", source=source)
    assert choose_hardware(precision="mixed_bfloat16", source="runs/a").precision == "mixed_bfloat16"


@pytest.mark.parametrize(
    "capabilities, policy",
    [([(9, 0)], "mixed_bfloat16"), ([(8, 0), (7, 5)], "mixed_float16"), ([(6, 1)], "float32"), ([], "float32")],
)
def test_precision_of_gpus(capabilities, policy):
    assert hardware._best_precision("one", capabilities)[0] == policy


def test_auto_takes_what_is_there(monkeypatch):
    monkeypatch.delenv("TPU_NAME", raising=False)
    assert hardware._choose_name("auto", [(8, 0)] * 4) == ("mirrored", "auto: there are 4 GPUs")
    assert hardware._choose_name("auto", [(8, 0)]) == ("one", "auto: there is one GPU")
    assert hardware._choose_xla("auto", "one", [(8, 0)])[0] is True
    assert hardware._choose_xla("auto", "mirrored", [(8, 0)] * 2)[0] is False
    monkeypatch.setenv("TPU_NAME", "my-tpu")
    assert hardware._choose_name("auto", [])[0] == "tpu"
    assert hardware._best_precision("tpu", [])[0] == "mixed_bfloat16"


@pytest.mark.parametrize("gpus, kept", [([], 1), ([(9, 0)], 0)])
def test_freed_memory_is_kept_where_the_cpu_computes(no_accelerator, monkeypatch, gpus, kept):
    calls = []
    monkeypatch.setattr(hardware, "keep_freed_memory", lambda: calls.append(1))
    monkeypatch.setattr(hardware, "_gpus", lambda: gpus)
    choose_hardware("one", precision="float32", xla="off")
    assert len(calls) == kept


def test_xla_with_replicas_is_on_where_asked_for():
    assert hardware._choose_xla("auto", "mirrored", [(8, 0)] * 2) == (False, "auto: several replicas")
    assert hardware._choose_xla("on", "mirrored", []) == (
        True,
        "asked for: forward and backward pass, inside each replica",
    )
    assert hardware._choose_xla("on", "one", []) == (True, "asked for")


def test_batches_are_divided_among_replicas_and_micro_batches():
    two = Hardware(object(), "mirrored", 2, "float32", False, ())
    two.check_batch_sizes(8, 16, accumulate=4)
    two.check_batch_sizes(9)
    with pytest.raises(ValueError, match=r"multiple of `accumulate`, 3 times the 2 replicas. Received: \[8, 9\]"):
        two.check_batch_sizes(9, 8, 12, accumulate=3)
    with pytest.raises(ValueError, match=r"multiple of the 2 replicas. Received: \[9\]"):
        two.check_batch_sizes(9, 8, is_even=True)
    with pytest.raises(ValueError, match=r"multiple of the 2 replicas. Received: \[9\]"):  # JAX has no strategy
        dataclasses.replace(two, strategy=None).check_batch_sizes(9)


@pytest.mark.parametrize("arguments", [{"strategy": "two"}, {"precision": "float8"}, {"xla": "maybe"}])
def test_unknown_choices(arguments):
    with pytest.raises(ValueError, match="must be one of.*Received"):
        choose_hardware(**arguments)


def test_devices_cannot_be_split_after_the_start():
    tf.zeros(()).numpy()
    with pytest.raises(RuntimeError, match="Call choose_hardware first"):
        choose_hardware("mirrored", logical_cpus=3)


def test_no_tpu(no_accelerator):
    with pytest.raises(RuntimeError, match=r"tried TPUClusterResolver\(tpu='local'\).*no TPU_NAME"):
        choose_hardware("tpu")


def test_multiworker_without_tf_config(no_accelerator):
    with pytest.raises(ValueError, match="TF_CONFIG.*Received: none"):
        choose_hardware("multiworker")


def test_malformed_tf_config():
    wrong_inputs(
        check_tf_config,
        (None, "Received: none"),
        ("{", "not JSON"),
        ('{"cluster": {}}', "KeyError: 'worker'"),
        (json.dumps(CLUSTER | {"cluster": {"worker": "a:1"}}), "must list"),
        (json.dumps(CLUSTER | {"task": {"type": "worker", "index": 2}}), "`task` must be one of the cluster's"),
        (json.dumps(CLUSTER | {"task": {"type": "ps", "index": 0}}), "`task` must be one of the cluster's"),
    )


def test_well_formed_tf_config():
    check_tf_config(json.dumps(CLUSTER))


CHOOSE_ON_JAX = """
import json
from kbert.training.hardware import choose_hardware
one = choose_hardware()
with one.scope():
    pass
mirrored = choose_hardware("mirrored")
try:
    choose_hardware("multiworker")
except ValueError as error:
    refused = str(error)
chosen = [one.name, one.replicas, one.precision, one.jit_compile, mirrored.describe(), refused]
"""


@pytest.mark.parity
@pytest.mark.parametrize("alone", slow_but([False], [False, True]))
def test_on_jax(monkeypatch, alone):
    """In this process, whose backend is TensorFlow, and in one of the JAX backend."""
    pytest.importorskip("jax")
    if alone:
        found = run_python(CHOOSE_ON_JAX + "print(json.dumps(chosen))", backend="jax")
    else:
        monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
        exec(CHOOSE_ON_JAX, here := {})
        found = here["chosen"]
    *chosen, described, refused = found
    assert chosen == ["one", 1, "float32", True]
    assert "strategy one: one cpu device (asked for)" in described
    assert "several machines train through TensorFlow" in refused and "Received: 'multiworker'" in refused


def test_a_mirror_of_one_device_is_that_device(no_accelerator):
    chosen = choose_hardware("mirrored")
    assert (chosen.name, chosen.replicas) == ("one", 1)
    assert "asked for, but there is one CPU device, which logical_cpus (--logical-cpus 2) would split" in str(
        chosen.describe()
    )


def test_a_process_has_one_strategy(no_accelerator):
    script = """
    import json
    from kbert.training.hardware import choose_hardware
    first, second = (choose_hardware("mirrored", logical_cpus=2) for _ in range(2))
    print(json.dumps([first.strategy is second.strategy, first.replicas]))
    """
    assert run_python(script, forked=True) == [True, 2]


def test_a_model_is_trained_on_the_replicas_that_it_was_built_for(no_accelerator):
    script = """
    import json
    import keras
    from kbert.training.hardware import choose_hardware
    from kbert.training import hardware as module
    mirrored = choose_hardware("mirrored", logical_cpus=2)
    plain = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    with mirrored.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    module._gpus = lambda: [(8, 0)] * 2  # of which "auto" takes both
    found = [choose_hardware(precision="float32", source=x).name for x in (plain, model)]
    for name, source in (("mirrored", plain), ("one", model)):
        try:
            choose_hardware(name, "float32", source=source)
        except ValueError as error:
            found.append(str(error))
    print(json.dumps(found))
    """
    *names, on_two, on_one = run_python(script, forked=True)
    assert names == ["one", "mirrored"]
    assert (
        "Received: strategy mirrored with 2, and a model that was built for 1 in another strategy. Build or" in on_two
    )
    assert "Received: strategy one with 1, and a model that was built for 2 in another strategy. Build or" in on_one


@pytest.fixture
def hidden(monkeypatch):
    """The calls by which devices were chosen."""
    calls = []
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *arguments: calls.append(arguments))
    return calls


def test_gpus_are_hidden(hidden):
    processor_only()
    assert hidden == [([], "GPU")]


def test_what_is_in_use_stays_in_use(monkeypatch):
    def initialised(*_):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", initialised)
    processor_only()
