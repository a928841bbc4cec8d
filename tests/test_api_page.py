"""docs/api.md is what docs/make_api.py makes of the docstrings."""

from helpers.docs_scripts import import_docs_script


def test_the_page_is_current():
    make_api = import_docs_script("make_api")
    assert make_api.PATH.read_text(encoding="utf-8") == make_api.page(), "run: python docs/make_api.py"
    assert "| `SelfAttention` | Scaled dot-product attention" in make_api.page()
