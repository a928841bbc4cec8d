"""Names of several words in cased text, which a pre-training masks as a whole."""

import pytest
from find_names import find_names, sentence_names
from helpers.run_recipe import as_flags, run_recipe

import kbert


@pytest.mark.parametrize(
    "sentence, names",
    [
        ("He met John Smith in New York.", ["John Smith", "New York"]),
        ("In 1815 the Battle of Waterloo ended.", ["Battle of Waterloo"]),
        ("It was Alexander the Great, J. R. Tolkien and Mary.", ["Alexander the Great", "J. R. Tolkien"]),
        ("The King of France is bald.", []),  # the first word is always capitalized
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


def test_frequent_names(tmp_path):
    texts = ["He left New York. They like New York.", "It was Ann Lee, whom they met in New York."]
    texts += ["And then Mr. X left Ann Lee.", "We saw John Smith and, again, John Smith."]
    assert find_names(texts, tmp_path / "all", min_count=2) == ["New York", "Ann Lee", "John Smith"]
    assert find_names(texts, tmp_path / "first", min_count=2, max_names=1) == ["New York"]
    with pytest.raises(ValueError, match="none of 4 names occurs 4 times"):
        find_names(texts, tmp_path / "none", min_count=4)
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("eagerly")
def test_a_model_learns_from_masked_names(tmp_path, capsys):
    lines = "".join(f"He left New York {n} .\nThey like New York .\n\nSo did John Smith {n} .\n\n" for n in range(40))
    (tmp_path / "corpus.txt").write_text(lines)
    flags = as_flags(output=tmp_path / "names.txt", min_count=2)
    assert run_recipe("find_names", tmp_path / "corpus.txt", *flags) == ["New York", "John Smith"]
    assert (tmp_path / "names.txt").read_text() == "New York\nJohn Smith\n"
    assert "2 names, such as New York, John Smith" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="names.txt already exists"):
        run_recipe("find_names", tmp_path / "corpus.txt", *flags)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"he left new york they like so did john smith .".split()]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    options = {"size": "tiny", "steps": 1, "batch_size": 4, "sequence_length": 16, "evaluation_batches": 1}
    options |= {"vocabulary": tmp_path / "vocab.txt", "held_out": 0.3, "packed": False}
    run = kbert.pretrain(
        tmp_path / "corpus.txt", masking=kbert.pretraining.Masking(names=tmp_path / "names.txt"), **options
    )
    assert run.metrics["unigram"]["masks"] > 0
