"""What an inspection found → one HTML page that needs nothing else."""

import base64
import hashlib
import html
import json
import pathlib

import numpy as np

from kbert.inspection.analysis.attention_statistics import STATISTICS
from kbert.inspection.findings.inspection import Inspection
from kbert.inspection.findings.views import MEANING, completeness

_MOST_TOKENS = 64  # of a text, in the page
_PARTS = pathlib.Path(__file__).parent


def report_html(found: Inspection) -> str:
    """The report as one page: attention to look into, tables and charts; light and dark, for wide and narrow windows.

    It asks for nothing from anywhere: its policy allows its own script and style alone, by their hashes. Texts and
    tokens are data of the script, which shows them as text.
    """
    style, script = ((_PARTS / f"report.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    data = json.dumps(_data(found), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")  # no end of a script
    title = html.escape(found.name)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}: inspection</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<main><h1>{title}</h1><noscript>This page draws its figures with a script of its own.</noscript></main>\n"
        f'<script type="application/json" id="data">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _hash(content):
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode('utf-8')).digest()).decode()}'"


def _data(found):
    plain = found.to_dict()
    for one, states in zip(plain["texts"], found.texts, strict=True):
        shown = min(len(states.tokens), _MOST_TOKENS)
        one["shown"], one["attention"] = shown, _packed(states.attention[:, :, :shown, :shown])
        one["norms"] = np.linalg.norm(states.hidden_states[:, :shown], axis=-1).round(3).tolist()
    for one, attributions in zip(plain["attributions"], found.attributions, strict=True):
        if one is not None:
            one["verdict"] = completeness(attributions)
    return plain | {"meaning": {name: MEANING[name] for name in STATISTICS}}


def _packed(probs):
    """Probabilities as 16-bit numbers, little-endian, in base64: steps of 0.000015."""
    steps = np.round(np.clip(probs, 0.0, 1.0) * 65535).astype("<u2")
    return base64.b64encode(steps.tobytes()).decode()
