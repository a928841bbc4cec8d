"""The rooms of the house: imports point upwards only, and importing kbert costs nothing.

Three lie in the folder of what they are about, but in another place of the order: the playground, in
kbert/inspection/, is the last one, which no other may import; pre-training as one call, in kbert/pretraining/, comes
before fine-tuning; and models use the signals of kbert/training/.
"""

import ast
import functools
import inspect
import re

from helpers.paths import ROOT
from helpers.run_python import assert_imports_none

ROOMS = (
    "saved_classes versions aliases errors checks options files locks training.signals stateless_random keras_compat "
    "xla config text corpus pretraining preprocessing layers optim models answers pipelines weights training "
    "inspection tasks pretraining.run finetuning serving inspection.playground cli commands __main__"
).split()
BACKEND_NEUTRAL = (
    "saved_classes versions aliases errors checks options files locks keras_compat xla config layers optim models"
).split()


# Which rooms of tasks use those of others; all else that several tasks use stands in kbert/tasks/ itself, beside them.
TASK_ROOMS = {
    "encoder": {"glue_benchmark"},  # whose STS-B scores embeddings
    "glue_benchmark": {"text_task"},  # its tasks
}


FILES = sorted(p for p in (ROOT / "kbert").rglob("*.py") if p != ROOT / "kbert/__init__.py")


@functools.cache
def _tree(path):
    return ast.parse(path.read_text())


def _room(path):
    return _room_of(path.relative_to(ROOT / "kbert").with_suffix("").parts)


def _room_of(parts):
    """The room of a module's path below kbert; parts of a folder that is a room of its own are that room."""
    inner = ".".join(parts[:2])
    return inner if inner in ROOMS else parts[0]


def _imports(path):
    """Yields (names of the path below kbert, line) of every import of kbert; of `import kbert` no names.

    Imports for type checkers alone do not count.
    """
    for node in _nodes(_tree(path)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "kbert":
                yield parts[1:], node.lineno


def _nodes(tree):
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from _nodes(node)


def _imported_rooms(path):
    for parts, line in _imports(path):
        yield _room_of(parts) if parts else "kbert", line


def test_every_folder_and_module_is_a_room():
    not_rooms = {"__pycache__", "__init__.py", "__init__.pyi", "py.typed"}
    names = {path.stem for path in (ROOT / "kbert").iterdir() if path.name not in not_rooms}
    assert names == {room for room in ROOMS if "." not in room}
    inner = [ROOT / "kbert" / room.replace(".", "/") for room in ROOMS if "." in room]
    assert all(path.is_dir() or path.with_suffix(".py").is_file() for path in inner)


def test_imports_point_upwards():
    for path in FILES:
        for room, line in _imported_rooms(path):
            if room == "kbert" and _room(path) == "commands":
                continue  # commands use the public names, as their users do
            assert room in ROOMS, f"{path.name}:{line} imports kbert.{room}, which is not a room"
            assert ROOMS.index(room) <= ROOMS.index(_room(path)), (
                f"{path.relative_to(ROOT)}:{line} ({_room(path)}) imports {room}, which comes after it"
            )


def test_a_task_imports_from_no_other_task_but_those_with_a_reason():
    tasks = ROOT / "kbert/tasks"
    rooms = {p.name for p in tasks.iterdir() if (p / "__init__.py").exists()}
    rooms |= {"encoder", "multiple_choice", "pretraining", "similarity", "text_task"}  # of one file
    found = {}
    for path in sorted(tasks.rglob("*.py")):
        own = path.relative_to(tasks).with_suffix("").parts[0]
        for parts, _ in _imports(path):
            if parts[:1] == ["tasks"] and len(parts) > 1 and parts[1] in rooms - {own}:
                found.setdefault(own, set()).add(parts[1])
    assert found == TASK_ROOMS


def test_the_model_side_imports_tensorflow_only_inside_functions():
    for path in (path for path in FILES if _room(path) in BACKEND_NEUTRAL):
        for node in _tree(path).body:
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not any(m.split(".")[0].startswith("tensorflow") for m in modules), f"{path.name}:{node.lineno}"


def test_what_a_base_class_declares_is_read_and_not_asked_for():
    asked = re.compile(r'(?:getattr|hasattr)\([^"\n]*"(multi_label|num_labels|pair|thresholds|preprocessor)"')
    for path in FILES:
        found = asked.search(path.read_text())
        assert not found, f"{path.relative_to(ROOT)}: {found[0]}; models, answers and preprocessors all have it"


def test_importing_kbert_is_cheap():
    heavy = ("tensorflow", "tensorflow_text", "keras", "keras_hub", "torch", "jax", "numpy")
    assert_imports_none("import kbert; kbert.BertConfig", *heavy)


def test_the_public_names_have_the_arguments_of_the_design():
    import kbert

    arguments = {  # as design.md has them
        "audit": ["saved_model"],
        "export": ["pipeline", "directory", "version"],
        "inspect": ["model"],
        "load_pretrained": ["source", "task"],
        "save_pretrained": ["model_or_pipeline", "directory", "format"],
        "Pipeline": ["preprocessor", "model", "answers"],
    }
    for name, expected in arguments.items():
        assert list(inspect.signature(getattr(kbert, name)).parameters)[: len(expected)] == expected
