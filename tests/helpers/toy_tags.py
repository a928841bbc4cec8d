"""Tagged sentences that a tiny model learns: a good or bad thing is an entity."""

from helpers.tiny_directory import BAD, GOOD, NOUNS


def tagged_sentences(count, start=0):
    """[(words, IOB2 tags)] with the words of the tiny directory."""
    rows = []
    for n in range(start, start + count):
        word, type_ = (GOOD[n % 4], "PRO") if n % 3 else (BAD[n % 4], "CON")
        rows.append((["the", word, NOUNS[n % 5], "."], ["O", f"B-{type_}", f"I-{type_}", "O"]))
        if n % 4 == 0:
            rows[-1] = (["a", *rows[-1][0][1:3]], rows[-1][1][:3])
    return rows


def write_ner(path):
    """The files of CoNLL-2003, twelve sentences each, in a new directory; returns the path."""
    path.mkdir()
    for name, start in (("train", 0), ("testa", 12)):
        write_conll(path / f"eng.{name}", tagged_sentences(12, start=start))
    return path


def write_conll(path, rows, document=3):
    """Writes IOB1 columns, a document for every `document` sentences; returns the path."""
    lines = []
    for n, (words, tags) in enumerate(rows):
        if n % document == 0:
            lines += ["-DOCSTART- -X- O", ""]
        lines += [f"{word} X {tag.replace('B-', 'I-')}" for word, tag in zip(words, tags, strict=True)] + [""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
