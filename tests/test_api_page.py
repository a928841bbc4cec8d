"""docs/api.md is what docs/make_api.py makes of the docstrings."""

import importlib.util

from helpers.paths import ROOT


def test_the_page_is_current():
    spec = importlib.util.spec_from_file_location("make_api", ROOT / "docs" / "make_api.py")
    make_api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_api)
    assert make_api.PATH.read_text(encoding="utf-8") == make_api.page(), "run: python docs/make_api.py"
    assert "| `SelfAttention` | Scaled dot-product attention" in make_api.page()
