"""Toy files in every layout of the official GLUE download, with labels that a word decides."""

from helpers.tiny_directory import sentences, write_tiny_directory

OTHER = "the kind play ."
PARSES = ["( p )"] * 4
STS_HEADER = ("index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2")
MNLI_HEADER = ("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse")
MNLI_HEADER += ("sentence1_parse", "sentence2_parse", "sentence1", "sentence2")
TEST_ROWS = 7
GLUE_QUICK = ("--batch-sizes", 8, "--sequence-length", 9, "--learning-rates", 1e-2)


def write_glue_home(path):
    """init/ with a tiny model and glue/ with the toy files; returns the path."""
    write_tiny_directory(path / "init")
    write_toy_glue(path / "glue")
    return path


def glue_arguments(home, task, output, *more):
    """Those of ``kbert glue`` for what `write_glue_home` wrote; `task` "all": all of them."""
    tasks = () if task == "all" else ("--tasks", task)
    where = ("--directory", home / "glue", "--source", home / "init", "--output", output)
    return (*where, *tasks, *GLUE_QUICK, *more)


def write_toy_glue(path, train=60, dev=20):
    """Writes all ten folders below `path`, and returns it: columns, headers, the byte order mark and broken QQP rows as
    in the download."""
    for split, rows in {"train": sentences(train), "dev": sentences(dev, start=train)}.items():
        labelled = [(n, text, int(label == "good")) for n, (text, label) in enumerate(rows)]
        _write_labelled(path, split, labelled)
    _write_tests(path, [(n, text) for n, (text, _) in enumerate(sentences(TEST_ROWS, start=train + dev))])
    return path


def _write_labelled(path, split, rows):
    entailed = {0: "not_entailment", 1: "entailment"}
    inferred = {0: "contradiction", 1: "entailment"}
    _write(path / "CoLA" / f"{split}.tsv", None, [("gj04", y, "" if y else "*", x) for _, x, y in rows])
    _write(path / "SST-2" / f"{split}.tsv", ("sentence", "label"), [(x, y) for _, x, y in rows])
    header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    _write(path / "MRPC" / f"{split}.tsv", header, [(y, n, n + 1, x, OTHER) for n, x, y in rows], bom=split == "dev")
    _write(
        path / "STS-B" / f"{split}.tsv",
        (*STS_HEADER, "score"),
        [(n, "g", "f", "2012test", n, "none", "none", x, OTHER, f"{4.5 * y:.3f}") for n, x, y in rows],
    )
    header = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    broken = [(99, 1, 2, "cut off here")]
    _write(path / "QQP" / f"{split}.tsv", header, broken + [(n, n, n, x, OTHER, y) for n, x, y in rows] + broken)
    header = ("index", "question", "sentence", "label")
    _write(path / "QNLI" / f"{split}.tsv", header, [(n, x, OTHER, entailed[y]) for n, x, y in rows])
    header = ("index", "sentence1", "sentence2", "label")
    _write(path / "RTE" / f"{split}.tsv", header, [(n, x, OTHER, entailed[y]) for n, x, y in rows])
    _write(path / "WNLI" / f"{split}.tsv", header, [(n, x, OTHER, y) for n, x, y in rows])
    for file in ("train",) if split == "train" else ("dev_matched", "dev_mismatched"):
        votes = 1 if split == "train" else 5
        header = (*MNLI_HEADER, *(f"label{i + 1}" for i in range(votes)), "gold_label")
        kept = rows[:-3] if file == "dev_mismatched" else rows
        _write(
            path / "MNLI" / f"{file}.tsv",
            header,
            [(n, n, f"{n}e", "fiction", *PARSES, x, OTHER, *["neutral"] * votes, inferred[y]) for n, x, y in kept],
        )


def _write_tests(path, rows):
    for task in ("CoLA", "SST-2"):
        _write(path / task / "test.tsv", ("index", "sentence"), rows)
    header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    _write(path / "MRPC" / "msr_paraphrase_test.txt", header, [(1, n, n, x, OTHER) for n, x in rows], bom=True)
    years = [(n, "g", "f", "2012test", n, "none", "none", x, OTHER) for n, x in rows]
    _write(path / "STS-B" / "test.tsv", STS_HEADER, years)
    _write(path / "QQP" / "test.tsv", ("id", "question1", "question2"), [(n, x, OTHER) for n, x in rows] + [(7, "cut")])
    _write(path / "QNLI" / "test.tsv", ("index", "question", "sentence"), [(n, x, OTHER) for n, x in rows])
    pairs = [(n, x, OTHER) for n, x in rows]
    for file in ("RTE/test.tsv", "WNLI/test.tsv", "diagnostic/diagnostic.tsv"):
        _write(path / file, ("index", "sentence1", "sentence2"), pairs)
    for file in ("test_matched", "test_mismatched"):
        _write(
            path / "MNLI" / f"{file}.tsv", MNLI_HEADER, [(n, n, f"{n}", "fiction", *PARSES, x, OTHER) for n, x in rows]
        )


def _write(path, header, rows, bom=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(map(str, row)) + "\n" for row in ([header] if header else []) + rows]
    path.write_text("".join(lines), encoding="utf-8-sig" if bom else "utf-8")
