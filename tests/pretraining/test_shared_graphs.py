"""Graphs that datasets share: traced once, and never for other settings than their own."""

import pytest
from helpers.pretraining_batches import dataset_of
from helpers.tiny_corpus import VOCABULARY, make_tokenizer

from kbert.pretraining import shared_graphs
from kbert.pretraining.masking import TokenMasking
from kbert.pretraining.next_tokens import NextTokens
from kbert.text.tokenizer import BertTokenizer


@pytest.mark.parametrize("packed", [False, True])
def test_datasets_of_the_same_settings_share_their_graphs(records, tokenizer, packed):
    """Whatever their seed and batch size, held out or not: a run has datasets of each kind."""
    dataset_of(records, tokenizer, seed=5, packed=packed)
    before = [graph.cache_info().misses for graph in (shared_graphs._pairs_graph, shared_graphs._rows_graph)]
    dataset_of(records, make_tokenizer(), batch_size=3, evaluation=True, packed=packed)
    assert [graph.cache_info().misses for graph in (shared_graphs._pairs_graph, shared_graphs._rows_graph)] == before


def test_what_a_graph_depends_on_is_in_its_key(tokenizer):
    def masking(tokenizer=tokenizer, max_predictions=3, **options):
        return TokenMasking(tokenizer, max_predictions, **options)

    moved = BertTokenizer([*VOCABULARY[:1], *VOCABULARY[2:], VOCABULARY[1]])  # other ids of [UNK], [CLS] and so on
    larger = BertTokenizer([*VOCABULARY, "more"])
    other_pieces = BertTokenizer([*VOCABULARY[:-1], "zz"])
    layers = [
        masking(),
        masking(max_predictions=4),
        masking(mask_rate=0.3),
        masking(mask_token_rate=0.7, keep_rate=0.2),
        masking(mask_token_rate=0.7, random_token_rate=0.2),
        masking(whole_word=True),
        masking(other_pieces, whole_word=True),
        masking(moved),
        masking(larger),
        NextTokens(tokenizer, 3),
        NextTokens(tokenizer, 4),
        NextTokens(moved, 3),
    ]
    assert len({shared_graphs._identity(layer) for layer in layers}) == len(layers)
    assert shared_graphs._identity(masking(make_tokenizer())) == shared_graphs._identity(masking())
    assert shared_graphs._identity(masking(other_pieces)) == shared_graphs._identity(masking())  # only whole words ask
