"""README and docs say what is true: their commands exist with those flags, their links lead somewhere."""

import functools
import importlib
import re

import pytest
from helpers.paths import ROOT
from helpers.run_recipe import RECIPES, run_recipe

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "saved_models/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
_COMMAND = re.compile(r"recipes/(\w+)\.py((?:[^\n`|#)]|\\\n)*)")


@functools.cache
def _commands():
    """recipe → the flags that README, docs and the recipes' own texts use with it."""
    flags = {}
    for path in [*PAGES, *sorted(RECIPES.glob("*.py"))]:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for name, arguments in _COMMAND.findall(text):
            flags.setdefault(name, set()).update(re.findall(r"(?<![\w-])--[a-z][\w-]*", arguments))
    return flags


@pytest.mark.parametrize("name", sorted(_commands()))
def test_every_command_that_is_shown_exists(name, capsys):
    assert (RECIPES / f"{name}.py").is_file(), f"recipes/{name}.py is mentioned but is not there"
    with pytest.raises(SystemExit) as ended:
        run_recipe(name, "--help")
    help = capsys.readouterr().out
    assert ended.value.code == 0
    unknown = [flag for flag in _commands()[name] if not re.search(rf"{flag}\b", help)]
    assert not unknown, f"recipes/{name}.py has no {unknown}"
    assert len(help) > 400, "its help explains nothing"


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


def test_pictures_are_small_and_shown():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for path in (ROOT / "docs/images").iterdir():
        assert path.stat().st_size < 150_000 and f"](images/{path.name})" in text, path.name


def test_one_command_makes_every_picture(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    kinds = [
        importlib.import_module(f"screenshots.{name}") for name in ("playground", "tensorboard", "report", "written")
    ]
    made = [name for kind in kinds for name in kind.PICTURES]
    assert sorted(made) == sorted(path.stem for path in (ROOT / "docs/images").iterdir())
