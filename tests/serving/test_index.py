"""saved_models/README.md says of the cards beside it what they say themselves."""

import json
import re

from helpers.paths import ROOT

HOME = ROOT / "saved_models"


def test_the_rows_of_the_index():
    page = (HOME / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \[[^]]*\]\((\S+)\) \| `([^`]+)`", page, flags=re.MULTILINE))
    assert len(rows) >= 2
    for path, command in rows.items():
        card = json.loads((HOME / path).read_text(encoding="utf-8"))
        assert path == f"{card['name']}/{card['version']}/card.json"
        assert command.startswith("kbert export --source ") and f"--output saved_models/{card['name']}" in command
        assert command.split()[3].endswith(f"/{card['made_by']['model']}")
        assert {"serving_default"} < set(card["signatures"]) and not re.search(
            r'"/(work|home|tmp|root)', json.dumps(card)
        )
