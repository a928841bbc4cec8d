import pytest
from helpers.wrong_values import wrong_inputs

from kbert.text.vocabulary import SPECIAL_TOKENS, check_vocabulary, read_vocabulary, write_vocabulary

TOKENS = [*SPECIAL_TOKENS, "", "a", "", "##b", "\u2028", "\u00a0", "x\u2028y", "é", "…"]


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "vocab.txt"
    write_vocabulary(path, TOKENS)
    assert read_vocabulary(path) == TOKENS
    assert read_vocabulary(str(path)) == TOKENS
    assert [file.name for file in path.parent.iterdir()] == ["vocab.txt"]


def test_reads_what_editors_leave(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(
        b"\xef\xbb\xbf" + "\r\n".join([f"{token} " for token in (*SPECIAL_TOKENS, "a")]).encode() + b"\r\n\r\n"
    )
    assert read_vocabulary(path) == [*SPECIAL_TOKENS, "a"]


def test_refuses(tmp_path):
    for call in (check_vocabulary, lambda tokens: write_vocabulary(tmp_path / "vocab.txt", tokens)):
        wrong_inputs(
            call,
            ([*SPECIAL_TOKENS, "a", "b", "a"], r"line 8 \(id 7\).*'a' is also on line 6"),
            ([token for token in SPECIAL_TOKENS if token != "[MASK]"], r"without \[MASK\]"),
            ([], r"0 tokens, but without \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
            ([*SPECIAL_TOKENS, "a", ""], r"line 7 \(id 6\): the last token is empty"),
            ([*SPECIAL_TOKENS, "a\nb"], "line break"),
            ([*SPECIAL_TOKENS, " a"], r"line 6 \(id 5\): the white space around ' a' is lost .* Expected 'a'"),
            ([*SPECIAL_TOKENS, "##\u2028", "a"], r"line 6 \(id 5\).*Expected '##'"),
            ([*SPECIAL_TOKENS, 7], "must be a str. Received: 7"),
            (dict.fromkeys(SPECIAL_TOKENS, 1), "in the order of their ids, as a list.* Received: dict"),
            (set(SPECIAL_TOKENS), "in the order of their ids, as a list.* Received: set"),
            ("".join(SPECIAL_TOKENS), "Received: str"),
            (5, "Received: int"),
        )
    assert not list(tmp_path.iterdir())


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "words.txt"
    with pytest.raises(FileNotFoundError, match="words.txt"):
        read_vocabulary(path)
    path.write_text("[PAD]\n\n[UNK]\n[UNK]\n")
    with pytest.raises(ValueError, match="words.txt, line 4"):
        read_vocabulary(path)
    path.write_bytes("[PAD]\n".encode("utf-16"))
    with pytest.raises(ValueError, match="words.txt' is not UTF-8"):
        read_vocabulary(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "vocab.txt"
    write_vocabulary(path, TOKENS)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_vocabulary(path, [*TOKENS, "new"])
    assert read_vocabulary(path) == TOKENS
    assert [file.name for file in tmp_path.iterdir()] == ["vocab.txt"]
