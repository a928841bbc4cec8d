"""What Keras and TensorFlow keep private is used in one file."""

import ast
import gc
import re

import keras
import numpy as np
import pytest
from helpers.paths import ROOT

from kbert.keras_compat import deferred_variables, set_value
from kbert.layers import LoraDense

PRIVATE = re.compile(
    r"__internal__|_(flatten_layers|trainable_variables|learning_rate|get_variable_index|convert_input_args|"
    r"allow_non_tensor_positional_args|maybe_symbolic_build|assert_input_compatibility|distribute_strategy|"
    r"compile_loss|compile_metrics|distributed_dataset|get_metrics_result_or_logs|eval_epoch_iterator|kernel|"
    r"clip_gradients|apply_weight_decay|backend_update_step|clear_losses|untrack_variable|all_reduce_sum_gradients|"
    r"use_merge_call|replica_ctx_all_reduce|batch_gather_to)"
)
# By `base_optimizer`, `strategy_of` and `is_within_fit`.
LOOKED_UP = re.compile(r"inner_optimizer|(?<!_)distribute_strategy|_use_cached_eval_dataset")


def test_private_api_is_used_in_keras_compat_only():
    for path in (ROOT / "kbert").rglob("*.py"):
        source, name = path.read_text(), str(path.relative_to(ROOT))
        if name == "kbert/keras_compat.py":
            continue
        assert not LOOKED_UP.search(source), name
        for node in ast.walk(ast.parse(source)):
            used = getattr(node, "attr", None) or getattr(node, "name", None) or ""  # read, or overridden
            if isinstance(node, ast.Attribute | ast.FunctionDef) and PRIVATE.fullmatch(used):
                raise AssertionError(f"{name}:{node.lineno} uses {used}")
            module = getattr(node, "module", None) or ""
            assert not module.startswith(("keras.src", "tensorflow.python")), f"{name}:{node.lineno} imports {module}"


def test_deleting_a_variable_collects_no_garbage(monkeypatch):
    dense, collections = LoraDense(3), []
    dense.build((None, 4))
    dense.enable_lora(2)
    monkeypatch.setattr(gc, "collect", lambda: collections.append(1))
    dense.merge_lora()
    assert len(dense.variables) == 2 and not hasattr(dense, "lora_kernel_a")
    dense.quantize("int8")
    assert len(dense.variables) == 3 and not collections  # kernel, its scale and bias


def test_variables_start_with_stored_values():
    drawn = []

    def build(read):
        with deferred_variables():
            dense = keras.layers.Dense(2, kernel_initializer=lambda *_, **__: drawn.append(1), bias_initializer="ones")
            dense.build((None, 3))
            set_value(dense.kernel, read)
        return dense

    dense = build(lambda: np.full((3, 2), 7.0))
    np.testing.assert_array_equal(dense.kernel, np.full((3, 2), 7.0))
    np.testing.assert_array_equal(dense.bias, np.ones(2))
    set_value(dense.bias, lambda: np.zeros(2))  # outside: at once
    np.testing.assert_array_equal(dense.bias, np.zeros(2))
    with pytest.raises(ZeroDivisionError):
        build(lambda: 1 / 0)
    with keras.StatelessScope():
        other = keras.layers.Dense(2)
        other.build((None, 3))
    assert other.kernel.shape == (3, 2) and not drawn
