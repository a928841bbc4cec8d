"""What Keras and TensorFlow keep private is used in one file."""

import ast
import re

import pytest
from helpers.paths import ROOT

PRIVATE = re.compile(
    r"_(flatten_layers|trainable_variables|learning_rate|get_variable_index|convert_input_args|"
    r"allow_non_tensor_positional_args|maybe_symbolic_build|assert_input_compatibility|distribute_strategy|"
    r"compile_loss|compile_metrics|distributed_dataset)"
)
# of an optimizer's own update, as Keras' guide has it
OWN = {f"kbert/optim/{name}.py": {"_get_variable_index"} for name in ("adamw", "lamb")}


@pytest.mark.parametrize("path", sorted((ROOT / "kbert").rglob("*.py")), ids=lambda path: path.name)
def test_private_api_is_used_in_keras_compat_only(path):
    name = str(path.relative_to(ROOT))
    if name == "kbert/keras_compat.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            assert node.attr in OWN.get(name, ()), f"{name}:{node.lineno} uses {node.attr}"
        module = getattr(node, "module", None) or ""
        assert not module.startswith(("keras.src", "tensorflow.python")), f"{name}:{node.lineno} imports {module}"
