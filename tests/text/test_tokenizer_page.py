"""The code of docs/tokenizer.md runs, and gives what the page says."""

import re

from helpers.paths import ROOT


def test_the_page_runs():
    page = (ROOT / "docs" / "tokenizer.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S):
        exec(compile(block, "docs/tokenizer.md", "exec"), names)
    tokenizer, text = names["tokenizer"], names["text"]
    assert tokenizer.detokenize(tokenizer(["Hello naïve worlds!", "中"])).numpy()[0] == b"hello naive worlds !"
    spans = zip(names["starts"].numpy(), names["ends"].numpy(), strict=True)
    assert [text[start:end] for start, end in spans] == ["Where", "is", "Nai\u0308ve", "?"]
    assert tokenizer.unk_id not in names["ids"].numpy()
    assert names["prompt"]("Hello [MASK]!").numpy().tolist() == [5, 4, 8]
    assert "word" in names["tokens"] and len(names["tokens"]) <= 100
