"""README and docs say what is true: their commands exist with those flags, their links lead somewhere."""

import ast
import functools
import importlib
import re
import shlex

import pytest
from helpers.paths import ROOT
from helpers.run_recipe import RECIPES, import_recipe

from kbert.cli import make_parser, parse_call
from kbert.commands import COMMANDS

PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "saved_models/README.md", "recipes/README.md")
    ),
    *sorted((ROOT / "saved_models").glob("*/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/maintainers").glob("*.md")),
]
_WHOLE = re.compile(  # a line of code; prose may begin with the name, too
    rf"^ *(?:\$ )?(?:\w+=\S+ )*(kbert(?= (?:{'|'.join(COMMANDS)}) )|(?<=    )kbert|python recipes/\w+\.py) (.*)$",
    re.MULTILINE,
)
_NAMED = re.compile(r"`(kbert|recipes/\w+\.py) ([^`\n]*)`")
_SCRIPT = re.compile(r"(recipes/(?:experiments|benchmarks)/\w+\.py)([^`\n]*)")  # with argparse
_ENDS = re.compile(r" (?:#|\||>|&&|;).*")


def _shown(pattern):
    """The commands of a pattern in all pages and in the helps of recipes: (page, program, arguments)."""
    for path in [*PAGES, *sorted(RECIPES.glob("*.py"))]:
        text = re.sub(r" *\\+\n\s*", " ", path.read_text(encoding="utf-8"))  # twice in a docstring
        for program, arguments in pattern.findall(text):
            yield path.name, program.removeprefix("python "), _ENDS.sub("", arguments)


def _command(program, words):
    """(the `Command`, its words) of a program and what follows."""
    if program == "kbert":
        assert words[0] in COMMANDS, f"kbert has no command {words[0]!r}"
        return COMMANDS[words[0]], words[1:]
    return import_recipe(program.split("/")[1].removesuffix(".py")).COMMAND, words


@pytest.mark.parametrize("page, program, arguments", sorted({*_shown(_WHOLE)}))
def test_every_command_that_is_shown_is_understood(page, program, arguments):
    words = shlex.split(arguments)
    if "…" in arguments or "..." in arguments or words[0].startswith("-") or words == ["COMMAND", "--help"]:
        return
    if "$" in arguments:  # of a loop
        return
    try:
        parse_call(program, *_command(program, words))
    except SystemExit as stop:
        assert not stop.code and {"--help", "--print-config"} & set(words)


@pytest.mark.parametrize("page, program, arguments", sorted({*_shown(_NAMED)}))
def test_every_flag_that_is_named_exists(page, program, arguments):
    words = arguments.split()
    if words[0].startswith(("-", "{", "VERB", "COMMAND")):
        return
    command, words = _command(program, words)
    tasks = command.tasks().values() if command.tasks else [None]
    known = "".join(make_parser(program, command, command.flags(task)).format_help() for task in tasks)
    unknown = [word for word in words if word.startswith("--") and not re.search(rf"{word}\b", known)]
    assert not unknown, f"{page}: {program} {arguments} has no {unknown}"


def test_scripts_that_are_shown_exist_with_their_flags():
    shown = {command for page in PAGES for command in _SCRIPT.findall(page.read_text(encoding="utf-8"))}
    shared = "".join((RECIPES / name).read_text() for name in ("experiments/experiment.py", "benchmarks/turns.py"))
    for script, arguments in sorted(shown):
        text = (ROOT / script).read_text(encoding="utf-8") + shared
        flags = re.findall(r" --([\w-]+)", _ENDS.sub("", arguments))
        missing = [flag for flag in flags if f'"--{flag}"' not in text and f"{flag.replace('-', '_')}=" not in text]
        assert not missing, f"{script} {arguments}"
    assert len({script for script, _ in shown}) > 12


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        path = page.parent / target if target else page
        assert link.startswith("http") or path.exists(), f"{page.name}: {link}"
        assert link.startswith("http") or not anchor or anchor in _anchors(path), f"{page.name}: {link}"


@functools.cache
def _anchors(page):
    """What links to the headings of a page end in: lower case, without punctuation, hyphens for spaces."""
    without_code = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)", without_code, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_has_the_two_commands():
    """The marks by which programs find them stand above them, and .ci/run looks for the mark of the tests."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = dict(re.findall(r"<!-- (main|test) command -->\n```bash\n(.*?)\n```", readme, flags=re.DOTALL))
    assert commands["main"].endswith("recipes/quickstart.py")
    assert 'install -e ".[test]"' in commands["test"] and commands["test"].endswith("-m pytest")
    assert "<!-- test command -->" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_messages_name_scripts_that_exist():
    originals = {"modeling.py", "create_pretraining_data.py", "evaluate-v2.0.py"}
    for path in (ROOT / "kbert").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            for name in re.findall(r"[\w./-]+\.py\b", text if "\n" not in text else ""):  # with one it is a docstring
                place = ROOT if name.startswith(("recipes/", "kbert/")) else path.parent
                assert name in originals or (place / name).is_file(), f"{path}:{node.lineno}: {name}"


def test_pictures_are_small_and_shown():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for path in (ROOT / "docs/images").iterdir():
        assert path.stat().st_size < 150_000 and f"](images/{path.name})" in text, path.name


def test_one_command_makes_every_picture(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs/maintainers")
    kinds = [
        importlib.import_module(f"screenshots.{name}") for name in ("playground", "tensorboard", "report", "written")
    ]
    made = [name for kind in kinds for name in kind.PICTURES]
    assert sorted(made) == sorted(path.stem for path in (ROOT / "docs/images").iterdir())
