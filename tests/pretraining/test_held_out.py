"""A corpus of a few documents: what is asked for when none of them is held out."""

import re

import pytest
from helpers.tiny_corpus import make_documents, make_tokenizer

import kbert
from kbert.corpus.documents import DocumentList
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.dataset_statistics import token_counts
from kbert.pretraining.real_shares import real_shares
from kbert.pretraining.run import corpus_data
from kbert.pretraining.sources import check_held_out


@pytest.mark.parametrize("seed", range(5))
def test_the_advised_share_is_enough(seed):
    few = DocumentList(make_documents(4, seed))
    with pytest.raises(ValueError, match=r"None of 4 documents is held out at held_out=1e-06\. ") as error:
        check_held_out(few, 1e-6)
    share = re.search(r"such as (0\.\d+) \(--held-out \1\)", str(error.value))[1]
    check_held_out(few, float(share))


def test_one_document_cannot_be_divided():
    one = DocumentList(make_documents(1))
    for share, kind in ((1e-6, "held out"), (1 - 1e-6, "for training")):
        with pytest.raises(ValueError, match=f"None of 1 documents is {kind} at .* (Give more doc|a smaller share)"):
            check_held_out(one, share)


def test_records_have_held_out_documents_of_their_own(records, tokenizer):
    for name, function in (
        ("pretraining_dataset", lambda **share: pretraining_dataset(records, tokenizer, batch_size=1, **share)),
        ("token_counts", lambda **share: token_counts(records, tokenizer, **share)),
        ("real_shares", lambda **share: real_shares(records, tokenizer, **share)),
        ("pretrain", lambda **share: kbert.pretrain(records, steps=1, **share)),
    ):
        with pytest.raises(ValueError, match=f"^{name}: records have held-out documents of their own.*: held_out=0.2"):
            function(held_out=0.2)
        with pytest.raises(ValueError, match=rf"^{name}: `held_out` must be a number in \[0, 1\).*\. Received: '0.2'"):
            function(held_out="0.2")


@pytest.mark.parametrize("option", [{"format": "lines"}, {"language": "de"}, {"pool_sentences": 9}])
def test_how_text_is_read_is_for_text(records, tokenizer, option):
    (name,) = option
    made = DocumentList(make_documents(4))
    in_memory = [] if name == "pool_sentences" else [(made, "documents in memory")]
    for source, what in [(records, "records"), *in_memory]:
        message = f"{what} are no files of text and take no `{name}`. Received: {name}={option[name]!r}"
        with pytest.raises(ValueError, match=f"^pretraining_dataset: {message}"):
            pretraining_dataset(source, tokenizer, batch_size=1, **option)
    pretraining_dataset(records, tokenizer, batch_size=1, format="auto", language="en")


def test_pretraining_says_so_before_it_makes_a_model(monkeypatch):
    monkeypatch.setattr(corpus_data, "starting_model", lambda *_: pytest.fail("the check comes first"))
    with pytest.raises(ValueError, match="None of 4 documents is held out"):
        kbert.pretrain(make_documents(4), vocabulary=make_tokenizer(), steps=1, held_out=1e-6)
