"""Every message of docs/troubleshooting.md is one of kbert's."""

import ast
import functools
import re

import pytest
from helpers.paths import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
MESSAGES = [
    (double or single).strip() for double, single in re.findall(r"^\| (?:``(.+?)``|`([^`]+)`) \|", PAGE, re.MULTILINE)
]


@functools.cache
def texts():
    """The texts of kbert's code, each as the parts between what is put into it."""
    found = set()
    for path in (ROOT / "kbert").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value.replace("%%", "%"))
    return "\n".join(found)


def test_each_row_has_a_message():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| message")]
    assert len(rows) == len(MESSAGES) > 30
    assert len(PAGE.split()) <= 1_500


@pytest.mark.parametrize("message", MESSAGES)
def test_the_message_is_kberts(message):
    parts = [part.strip() for part in message.split("…")]
    assert any(len(part) > 10 for part in parts)
    assert [part for part in parts if part not in texts()] == []
