"""Tagged files: columns in every scheme, spans, and what is wrong with them."""

import itertools
import json
import random

import pytest
from helpers.wrong_values import wrong_inputs

from kbert.tasks.tagging.evaluation import write_predictions
from kbert.tasks.tagging.readers import TaggedText, check_tags, learn_tags, read_conll, read_tagged
from kbert.tasks.tagging.tag_scheme import entity_scores, recognise_scheme, to_iob2
from kbert.tasks.tagging.task import Tagging


def write(path, *lines, end="\n"):
    path.write_bytes(end.join([*lines, ""]).encode("utf-8"))
    return path


def encode(entities, length, scheme):
    """Tags of entities [(start, end, type)] in a scheme: the definitions, written out."""
    tags = ["O"] * length
    for number, (start, end, type_) in enumerate(entities):
        if scheme == "iob1":
            touches = number and entities[number - 1][1:] == (start, type_)
            marks = ["B" if touches else "I"] + ["I"] * (end - start - 1)
        elif scheme == "iob2":
            marks = ["B"] + ["I"] * (end - start - 1)
        else:
            only, last = ("S", "E") if scheme == "bioes" else ("U", "L")
            marks = [only] if end - start == 1 else ["B", *["I"] * (end - start - 2), last]
        tags[start:end] = [f"{mark}-{type_}" for mark in marks]
    return tags


def random_entities(draw, length):
    cuts = sorted(draw.sample(range(length + 1), draw.randint(0, length)))
    return [(a, b, draw.choice(("PER", "LOC-2"))) for a, b in itertools.pairwise(cuts) if draw.random() < 0.7]


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes", "bilou"])
def test_every_scheme_becomes_iob2_exactly(scheme, tmp_path):
    draw = random.Random(scheme)
    cases = [(n, random_entities(draw, n)) for n in (draw.randint(1, 9) for _ in range(200))]
    wanted = [encode(entities, n, "iob2") for n, entities in cases]
    written = [encode(entities, n, scheme) for n, entities in cases]
    assert recognise_scheme(written) == scheme
    assert [to_iob2(tags, scheme) for tags in written] == wanted
    lines = [line for tags in written for line in [*(f"w{i} x {tag}" for i, tag in enumerate(tags)), ""]]
    for end in ("\n", "\r\n"):
        read = read_conll(write(tmp_path / "a.txt", *lines, end=end))
        assert list(read.tags) == wanted
    assert read_conll(tmp_path / "a.txt", scheme=scheme).tags == read.tags


def test_columns_documents_and_lines(tmp_path):
    path = write(
        tmp_path / "a.txt",
        "-DOCSTART- -X- O O",
        "",
        "EU NNP I-NP I-ORG",
        "rejects VBZ I-VP O",
        "",
        "",
        "Peter NNP I-NP I-PER",
        "-DOCSTART- -X- O O",
        "Ärzte\u00a0x NN I-NP O",
    )
    read = read_conll(path)
    assert read.words == [["EU", "rejects"], ["Peter"], ["Ärzte\u00a0x"]]
    assert read.tags == [["B-ORG", "O"], ["B-PER"], ["O"]]
    assert list(read.documents) == [1, 1, 2]
    assert (read.where(0, 1), read.where(2)) == (f"{path}, line 4", f"{path}, line 9")
    assert read.texts("document") == [range(0, 2), range(2, 3)]
    assert [len(r) for r in read.texts("sentence")] == [1, 1, 1]
    assert learn_tags(read) == ["O", "B-ORG", "I-ORG", "B-PER", "I-PER"]
    assert read_conll(path, tag_column=2).tags[0] == ["B-NP", "B-VP"]
    assert read.take(range(2)).words == read.words[:2]
    with pytest.raises(ValueError, match=r"row numbers from 0 to 2, at least one. Received: \[4\]"):
        read.take([4])
    with pytest.raises(ValueError, match="line 7: expected one of .*Received: 'B-PER'"):
        check_tags(read, ["O", "B-ORG", "I-ORG"])


def test_a_needless_b_in_iob1_is_read_as_in_the_real_file(tmp_path):
    read = read_conll(write(tmp_path / "a.txt", "a I-X", "b I-Y", "", "c B-Y", "d I-Y"))
    assert read.tags == [["B-X", "B-Y"], ["B-Y", "I-Y"]]


def test_without_document_lines_sentences_stand_alone(tmp_path):
    read = read_conll(write(tmp_path / "a.tsv", "a b\tO", "", "c\tO"))
    assert read.words == [["a b"], ["c"]]
    assert len(read.texts("document")) == 2
    with pytest.raises(ValueError, match="at least one entity"):
        Tagging().settings(read)


def test_what_is_wrong_is_named_by_file_and_line(tmp_path):
    wrong_inputs(
        lambda lines: read_conll(write(tmp_path / "a.txt", *lines)),
        (["a B-X", "b I-Y"], r"line 2: IOB2 allows I-Y only after B-Y or I-Y. Received: I-Y after B-X"),
        (["a B-X", "b O", "c I-X"], "line 3: IOB2 allows I-X only after .* Received: I-X after O"),
        (["a B-X", "b O", "c S-X"], "line 2: BIOES has to end the entity that B-X leaves open. Received: O"),
        (["a S-X", "b B-X"], "line 2: BIOES .* B-X leaves open. Received: the end of the sentence"),
        (["a S-X", "b E-X"], "line 2: BIOES allows E-X only after B-X or I-X. Received: E-X after S-X"),
        (["a U-X", "b S-X"], r"line 2: BILOU has the prefixes .* Received: 'S-X'"),
        (["a B-X", "b VBZ"], "line 2: expected O or a tag like B-PER .* Received: 'VBZ'"),
        (["a B-X", "b"], r"line 2: expected 2 columns, as in the first line. Received: \['b'\]"),
        (["a"], "line 1: expected a word and its tag"),
        (["\tO"], "line 1: expected a word in column 0"),
        (["", "-DOCSTART- O", ""], "expected words in columns"),
        (["a O", "EU B-X\rrejects O\r\rPeter B-X"], "line 2: a carriage return inside the line"),
        owner="a.txt.*",
    )


def test_more_errors(tmp_path):
    path = write(tmp_path / "a.txt", "a O")
    for column in (0, -2, 5):
        with pytest.raises(ValueError, match=f"expected a tag in column {column} "):
            read_conll(path, tag_column=column)
    with pytest.raises(KeyError, match="iob3"):  # Tagging(scheme="iob3") says which there are
        read_conll(path, scheme="iob3")
    with pytest.raises(FileNotFoundError, match="is not a file"):
        read_conll(tmp_path / "b.txt")
    path.write_bytes(b"a O\n\xff O\n")
    with pytest.raises(ValueError, match="line 2: invalid UTF-8"):
        read_conll(path)


def test_spans(tmp_path):
    text = "Peter's 中国 trip: Ba\u0308d-Town!"
    rows = [
        {
            "text": text,
            "spans": [{"start": 8, "end": 10, "type": "LOC"}, {"start": 0, "end": 5, "type": "PER"}],
            "id": 3,
        },
        {"text": "Bad-Town U.S.", "spans": [[0, 3, "ADJ"], [4, 8, "LOC"], [9, 13, "LOC"]]},
    ]
    path = write(tmp_path / "a.jsonl", *(json.dumps(row) for row in rows), end="\r\n")
    read = read_tagged(path)
    assert read.words[0] == ["Peter", "'s", "中", "国", "trip", ":", "Ba\u0308d-Town", "!"]
    assert read.tags[0] == ["B-PER", "O", "B-LOC", "I-LOC", "O", "O", "O", "O"]
    assert read.words[1] == ["Bad", "-", "Town", "U.S."]  # cut where a span ends
    assert read.tags[1] == ["B-ADJ", "O", "B-LOC", "B-LOC"]
    assert read.where(1, 3) == f"{path}, line 2"
    assert read.texts("document") == [range(0, 1), range(1, 2)]


def test_wrong_spans(tmp_path):
    first = '{"text": "a", "spans": []}'
    wrong_inputs(
        lambda row: read_tagged(write(tmp_path / "a.jsonl", first, json.dumps(row))),
        ({"text": "a b", "spans": [[0, 2, "X"], [1, 3, "X"]]}, "spans must not overlap"),
        ({"text": "a b", "spans": [[0, 4, "X"]]}, "inside the text, 0 to 3"),
        ({"text": "a b", "spans": [[1, 1, "X"]]}, "inside the text"),
        ({"text": "a b", "spans": [[1, 2, "X"]]}, "a span with a word in it. Received: ' '"),
        ({"text": "a b", "spans": [[0, 1]]}, "expected a span"),
        ({"text": "a b", "spans": [{"start": 0, "end": 1.5, "type": "X"}]}, "expected a span"),
        ({"text": "a b", "spans": [[0, 1, "\ud83d"]]}, "expected characters"),
        ({"text": " ", "spans": []}, "a text with a word in it"),
        ({"text": "a"}, r"missing: \['spans'\]"),
        ({"text": "a", "spans": "X"}, "expected a text and a list of spans"),
        ([1], "expected one JSON object per line"),
        owner="a.jsonl, line 2: .*",
    )
    wrong_inputs(
        lambda content: read_tagged(write(tmp_path / "b.jsonl", content)),
        ("{", "line 1: not JSON"),
        ("[" * 200_000, "b.jsonl, line 1: expected JSON as other programs write it"),
        ("", "b.jsonl is empty"),
    )


def test_predictions_are_read_back(tmp_path):
    path = write(tmp_path / "a.txt", "-DOCSTART- O", "a I-X", "b I-X", "", "c O", "-DOCSTART- O", "d\u00a0e B-X", "f O")
    tagged = read_conll(write(path, *path.read_text("utf-8").replace("d\u00a0e B-X", "d\u00a0e I-X").splitlines()))
    predicted = [["B-X", "O"], ["B-X"], ["B-X", "O"]]
    write_predictions(tmp_path / "p.txt", tagged, predicted)
    lines = (tmp_path / "p.txt").read_text("utf-8").split("\n")
    assert lines[:5] == ["-DOCSTART- O O", "", "a B-X B-X", "b I-X O", ""]
    assert "d_e B-X B-X" in lines
    gold, guess = (read_conll(tmp_path / "p.txt", tag_column=n) for n in (1, 2))
    assert (gold.tags, guess.tags) == (tagged.tags, predicted)
    assert [len(text) for text in gold.texts()] == [len(text) for text in tagged.texts()] == [2, 1]
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        write_predictions(tmp_path / "p.txt", tagged, predicted[:2])


def test_white_space_does_not_break_the_columns_of_predictions(tmp_path):
    tagged = TaggedText([["\u00a0", "the", "film"]], [["B-good word", "I-good word", "O"]], [0])
    write_predictions(tmp_path / "p.txt", tagged, [["B-good word", "O", "O"]])
    read = read_conll(tmp_path / "p.txt", tag_column=1)
    assert (read.words, read.tags) == ([["_", "the", "film"]], [["B-good_word", "I-good_word", "O"]])


@pytest.mark.slow  # small files of the same form: test_columns_documents_and_lines
def test_the_real_files(shared_data):
    train = read_conll(shared_data / "conll2003" / "eng.train")
    dev = read_conll(shared_data / "conll2003" / "eng.testa")
    assert (len(train), sum(map(len, train.words)), len(train.texts())) == (14041, 203621, 946)
    assert (len(dev), sum(map(len, dev.words)), len(dev.texts())) == (3250, 51362, 216)
    assert (
        learn_tags(train)
        == learn_tags(dev)
        == ["O", "B-LOC", "I-LOC", "B-MISC", "I-MISC", "B-ORG", "I-ORG", "B-PER", "I-PER"]
    )
    scores = entity_scores(dev.tags, dev.tags)
    assert (scores["entities"], scores["f1"]) == (5942, 1.0)  # the published counts
    assert {name: one["entities"] for name, one in scores["types"].items()} == {
        "LOC": 1837,
        "MISC": 922,
        "ORG": 1341,
        "PER": 1842,
    }


def test_texts_and_spans_in_memory_are_read_as_from_a_file(tmp_path):
    rows = [
        {"text": "Peter left Paris.", "spans": [{"start": 0, "end": 5, "type": "PER"}, [11, 16, "LOC"]]},
        {"text": "Nobody left.", "spans": []},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = Tagging().read(path)
    for data in (rows, {name: [row[name] for row in rows] for name in ("text", "spans")}):
        found = Tagging().examples(data)
        assert (found.words, found.tags, found.documents) == (expected.words, expected.tags, expected.documents)
    with pytest.raises(ValueError, match=r"row 1: expected a span inside the text, 0 to 12\. Received"):
        Tagging().examples([rows[0], {"text": "Nobody left.", "spans": [[0, 50, "PER"]]}])
    with pytest.raises(ValueError, match=r"row 0: expected a text and a list of spans"):
        Tagging().examples([{"text": "Nobody left.", "spans": "PER"}])


def test_wrong_words_and_tags_in_memory_are_named_by_row():
    first = {"words": ["c", "d"], "tags": ["B-PER", "O"]}
    wrong_inputs(
        lambda row: Tagging().examples([first, {"words": row[0], "tags": row[1]}]),
        ((["a", "b"], [0, 1]), "row 1: expected lists of words and of as many tags, all strings"),
        (([1, 2], ["O", "O"]), "row 1: expected lists of words and of as many tags, all strings"),
        ((["a", "b"], ["O", "PER"]), "row 1: expected O or a tag like B-PER"),
        ((["a", "b"], ["O", "I-PER"]), r"row 1: IOB2 allows I-PER only after .* \(the tags look like IOB2\)"),
    )
