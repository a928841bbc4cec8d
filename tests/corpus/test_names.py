"""Names of several words by their capitals, and the recipe that writes them."""

import pytest
from helpers.run_recipe import run_kbert

from kbert.corpus.names import frequent_names, read_names, sentence_names


@pytest.mark.parametrize(
    "sentence, names",
    [
        ("He met John Smith in New York.", ["John Smith", "New York"]),
        ("In 1815 the Battle of Waterloo ended.", ["Battle of Waterloo"]),
        ("It was Alexander the Great, J. R. Tolkien and Mary.", ["Alexander the Great", "J. R. Tolkien"]),
        ("The King of France is bald.", []),  # the first word is capitalised whatever it is
        ("Mr. Smith slept.", ["Mr. Smith"]),
        ("She said that I Claudius was late.", []),
        ("He went to Paris. Mary stayed.", []),  # a full stop ends a name
        ("It is the Ministry of.", []),
        ("The A B C D E F G are letters, in London.", []),  # too many words
        ("no capitals here", []),
        ("", []),
    ],
)
def test_names_of_a_sentence(sentence, names):
    assert sentence_names(sentence) == names


def test_frequent_names():
    documents = [["He left New York.", "They like New York."], ["It was Ann Lee, whom they met in New York."]]
    documents += [["And then Mr. X left Ann Lee."], ["We saw John Smith and, again, John Smith."]]
    assert frequent_names(documents, min_count=2) == ["New York", "Ann Lee", "John Smith"]
    assert frequent_names(documents, min_count=2, max_names=1) == ["New York"]
    with pytest.raises(ValueError, match="at least 4 times. Received: 4 different names, the most frequent 3 times"):
        frequent_names(documents, min_count=4)


def test_the_recipe(tmp_path, capsys):
    (tmp_path / "corpus.txt").write_text("He left New York .\nThey like New York .\n\nSo did John Smith .\n")
    flags = (tmp_path / "corpus.txt", "--output", tmp_path / "names.txt", "--min-count", 1)
    run_kbert("names", *flags)
    assert read_names(tmp_path / "names.txt") == ["New York", "John Smith"]
    assert "2 names, such as New York, John Smith" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="names.txt already exists; `overwrite`"):
        run_kbert("names", *flags)
    (tmp_path / "names.txt").write_text("\n")
    with pytest.raises(ValueError, match="names.txt: expected names, one a line. Received: an empty file"):
        read_names(tmp_path / "names.txt")
    (tmp_path / "names.txt").write_bytes(b"\xef\xbb\xbfNew York\n")
    assert read_names(tmp_path / "names.txt") == ["New York"]
    (tmp_path / "names.txt").write_bytes(b"New York\nS\xe3o Paulo\n")
    with pytest.raises(ValueError, match="names.txt: invalid UTF-8 at byte 10"):
        read_names(tmp_path / "names.txt")
