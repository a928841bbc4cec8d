"""What Keras and TensorFlow keep private is used in one file, whose changes to other modules do not last."""

import ast
import gc
import re

from helpers.paths import ROOT

from kbert.keras_compat import without_collections

PRIVATE = re.compile(
    r"__internal__|_(flatten_layers|trainable_variables|learning_rate|get_variable_index|convert_input_args|"
    r"allow_non_tensor_positional_args|maybe_symbolic_build|assert_input_compatibility|distribute_strategy|"
    r"compile_loss|compile_metrics|distributed_dataset|get_metrics_result_or_logs|eval_epoch_iterator)"
)
LOOKED_UP = re.compile(r"inner_optimizer|(?<!_)distribute_strategy")  # by `base_optimizer` and `strategy_of`
# of an optimizer's own update, as Keras' guide has it
OWN = {f"kbert/optim/{name}.py": {"_get_variable_index"} for name in ("adamw", "lamb")}


def test_private_api_is_used_in_keras_compat_only():
    for path in (ROOT / "kbert").rglob("*.py"):
        source, name = path.read_text(), str(path.relative_to(ROOT))
        if name == "kbert/keras_compat.py":
            continue
        assert not LOOKED_UP.search(source), name
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
                assert node.attr in OWN.get(name, ()), f"{name}:{node.lineno} uses {node.attr}"
            module = getattr(node, "module", None) or ""
            assert not module.startswith(("keras.src", "tensorflow.python")), f"{name}:{node.lineno} imports {module}"


def test_contexts_that_overlap_as_those_of_threads_do_leave_collections_as_they_were(monkeypatch):
    made = []
    first, second = without_collections(), without_collections()
    monkeypatch.setattr(gc, "collect", lambda: made.append("one"))
    collect = gc.collect
    first.__enter__()
    second.__enter__()
    assert gc.collect() == gc.collect(1) == gc.collect(generation=1) == 0 and not made
    first.__exit__(None, None, None)
    gc.collect()
    assert not made, "the second is still open"
    second.__exit__(None, None, None)
    gc.collect()
    assert made == ["one"] and gc.collect is collect
