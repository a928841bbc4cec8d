"""Docstrings follow one grammar, and shape letters have one meaning each.

A docstring is a summary in one line, then sections in the order that CONTRIBUTING.md gives. docs/concepts.md has the
letters.
"""

import ast
import importlib
import pkgutil
import re

from helpers.paths import ROOT

import kbert

SECTIONS = ("Args", "Attributes", "Inputs", "Outputs", "Returns", "Yields", "Raises", "Source", "Example")
MODULES = [module for module in pkgutil.walk_packages(kbert.__path__, "kbert.") if module.ispkg]
PACKAGES = ["kbert", *(module.name for module in MODULES)]
EXPORTED = {name for package in PACKAGES for name in getattr(importlib.import_module(package), "__all__", ())}
DEFINITIONS = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
TABLE = re.search(r"^Shape letters.*?\. (?=Others)", (ROOT / "docs/concepts.md").read_text("utf-8"), re.M | re.S)[0]
LETTERS = dict(re.findall(r"\*\*(\w)\*\* (\w+)", TABLE))
SHAPE = re.compile(r"\[((?:(?:[A-Za-z0-9]+'?|\.\.\.|…)(?: [*+-] \w+)*(?:, |(?=\])))+)\]")


def public_definitions(body):
    for node in body:
        if isinstance(node, DEFINITIONS) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body)


def faults(source):
    """What is wrong with the docstrings of a module, a sentence each."""
    tree = ast.parse(source)
    for node in (tree, *public_definitions(tree.body)):
        docstring, name = ast.get_docstring(node) or "", getattr(node, "name", "the module")
        if "\n" in docstring.partition("\n\n")[0]:
            yield f"{name}: the summary runs over its line"
        found = re.findall(rf"^({'|'.join(SECTIONS)})::?(?: |$)", docstring, re.MULTILINE)
        if found != sorted(found, key=SECTIONS.index):
            yield f"{name}: {found} are out of order"
    for node in tree.body:
        is_exported = isinstance(node, ast.ClassDef) and node.name in EXPORTED
        if is_exported and any(isinstance(part, ast.Raise) for part in ast.walk(node)):
            if not re.search(r"^Raises:$", ast.get_docstring(node) or "", re.MULTILINE):
                yield f"{node.name}: raises errors, and does not say which"


def test_docstrings_follow_the_grammar():
    paths = sorted((ROOT / "kbert").rglob("*.py"))
    found = [f"{path.relative_to(ROOT)}: {fault}" for path in paths for fault in faults(path.read_text("utf-8"))]
    assert not found


def test_faults_are_found():
    source = '''
class BertConfig:
    """A summary that
    runs over.

    Example::

        BertConfig()

    Args:
        size: int.
    """

    def check(self):
        raise ValueError
'''
    assert list(faults(source)) == [
        "BertConfig: the summary runs over its line",
        "BertConfig: ['Example', 'Args'] are out of order",
        "BertConfig: raises errors, and does not say which",
    ]
    assert not list(faults(source.replace("BertConfig", "_Hidden")))


def shape_faults(source):
    """Capital letters in shapes that a module does not explain, or explains otherwise than docs/concepts.md."""
    texts = re.findall(r'"""(.*?)"""', source, re.DOTALL)
    said = re.search(r"^Shapes: (.*?)(?=\n\n|\n?\Z)", texts[0] if texts else "", re.MULTILINE | re.DOTALL)
    said = said[1].replace("\n", " ") if said else ""
    meanings = dict(re.findall(r"(?<![\w'])([A-Z]) ([a-z]+)", said))
    for letter, meaning in meanings.items():
        if letter not in LETTERS or (letter != "B" and meaning != LETTERS[letter]):  # B: texts, questions, rows …
            yield f"{letter} {meaning}: docs/concepts.md has {LETTERS.get(letter)}"
    texts += re.findall(r"#(.*)", source)
    used = {letter for text in texts for shape in SHAPE.findall(text) for letter in re.findall(r"\b[A-Z]\b", shape)}
    if missing := sorted(used - set(meanings)):
        yield f"no meaning of {', '.join(missing)} after Shapes:"


def test_a_shape_letter_has_one_meaning():
    paths = sorted((ROOT / "kbert").rglob("*.py"))
    found = [f"{path.relative_to(ROOT)}: {fault}" for path in paths for fault in shape_faults(path.read_text("utf-8"))]
    assert not found


def test_shape_faults_are_found():
    assert not list(shape_faults('"""Heads.\n\nShapes: B texts, N labels.\n"""\nx = 1  # [B, N]'))
    assert list(shape_faults('"""Heads.\n\nShapes: N units, Q questions.\n"""\nx = 1  # [N, B * S]')) == [
        "N units: docs/concepts.md has labels",
        "Q questions: docs/concepts.md has None",
        "no meaning of B, S after Shapes:",
    ]
