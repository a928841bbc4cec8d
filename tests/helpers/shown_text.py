"""Markdown as TensorBoard's Text tab shows it."""

import html
import re
import string

from tensorboard.plugin_util import markdown_to_safe_html

# What TensorBoard does with these texts must not be left to it: each is markup of a kind that it knows.
HOSTILE = (
    "<script>alert(1)</script>",
    "![x](http://example.org/x.png)",
    "[click](javascript:alert(1))",
    "**bold** _it_ `code` ~~no~~ | a | b |",
    "<b onclick='x'>&lt;&#42;</b> \\* \\| \x02klzzwxh:0000\x03",
    "# head\n\n* item\n1. one\n```\ncode\n```\n---\n> quote",
    "http://example.org <http://example.org> \u202eturned\u202c \x07\x7f",
)
_TAGS = {"table", "thead", "tbody", "tr", "th", "td", "strong", "em", "br", "p", "h3"}


def shown_cells(markdown: str) -> list[list[str]]:
    """The cells of all rows of all tables, as text: **, * around what is bold or in italics, a line feed for <br>.

    Checks that nothing else became markup, and that the rows of a table have as many cells as its header.
    """
    page = markdown_to_safe_html(markdown)
    assert set(re.findall(r"</?(\w+)", page)) <= _TAGS, page
    assert not re.search(r"<\w+ ", page), "an attribute"
    for table in re.findall(r"<table>.*?</table>", page, flags=re.DOTALL):
        assert len({len(row) for row in _rows(table)}) == 1
    return [[_text(cell) for cell in row] for row in _rows(page)]


def shown_as(text: str) -> str:
    """How a text of data must appear: as it is, its white space as one space, control characters as pictures."""
    text = re.sub(r"[\u202a-\u202e\u2066-\u2069]", "\ufffd", " ".join(text.split()))
    return "".join(chr(0x2400 + ord(c)) if c < " " else "\u2421" if c == "\x7f" else c for c in text)


def table_rows(page: str) -> list[list[str]]:
    """The cells of TensorBoard's HTML; character references are resolved but for those of markup."""
    for char in set(string.punctuation) - set("<>&"):
        page = page.replace(f"&#{ord(char)};", char)
    for char in "<>&":
        page = page.replace(f"&#{ord(char)};", html.escape(char))
    return _rows(page.replace("&nbsp;", " ").replace("\u00a0", " "))


def _rows(page):
    rows = re.findall(r"<tr>(.*?)</tr>", page, flags=re.DOTALL)
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]


def _text(cell):
    for tag, mark in (("strong", "**"), ("em", "*")):
        cell = re.sub(rf"</?{tag}>", mark, cell)
    cell = re.sub(r"<br ?/?>", "\n", cell)
    assert "<" not in cell, cell
    return html.unescape(cell).replace("\u00a0", " ")
