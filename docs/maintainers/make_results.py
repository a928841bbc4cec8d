"""Writes the tables of results/*.json into docs/results.md and the cards of kbert's own models.

    PYTHONPATH=.:recipes/experiments python docs/maintainers/make_results.py

A page marks the place of results/NAME.json by two comments, `<!-- NAME.json -->` and `<!-- end -->`. What surrounds
them is written by hand.
"""

import pathlib
import re

from experiment import markdown

from kbert.files import read_json

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs/results.md", *sorted(ROOT.glob("saved_models/*/README.md"))]
TABLE = re.compile(r"(<!-- ([\w-]+\.json) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with the tables of the files that it names."""

    def table(found):
        return f"{found[1]}\n{markdown(read_json(ROOT / 'results' / found[2]))}\n{found[3]}"

    return TABLE.sub(table, page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
