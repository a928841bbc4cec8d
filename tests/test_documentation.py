"""README and docs say what is true: their commands exist with those flags, their links lead somewhere."""

import re

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.run_recipe import RECIPES, run_recipe

PAGES = [ROOT / "README.md", ROOT / "saved_models/README.md", *sorted((ROOT / "docs").glob("*.md"))]
_COMMAND = re.compile(r"recipes/(\w+)\.py((?:[^\n`|#)]|\\\n)*)")


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_opens_with_the_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)\n```", readme, flags=re.DOTALL)
    assert blocks[0].endswith("recipes/quickstart.py") and 'install -e ".[test]"' in blocks[1]
    assert blocks[1].endswith("-m pytest")
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "<!-- test command -->" in readme and "<!-- test command -->" in script


def test_the_readme_example_runs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    ids = np.array([[1, 2, 3], [4, 5, 6]])
    batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    assert 0.5 < names["classifier"].evaluate(batch, {"logits": np.array([0, 2])}, verbose=0)[0] < 2  # near log(3)
