"""The parts of an input row are rows of the encoder's tables, and their sum is what its first layer reads."""

import numpy as np
from helpers.served_models import make_pipeline

from kbert.inspection.analysis.states import text_states
from kbert.inspection.views.embeddings import input_row


def test_the_parts_add_up_to_what_the_first_layer_reads():
    pipeline, _ = make_pipeline("encoder")
    texts = ("The film is good.", "paris was never the capital")
    row = input_row(pipeline.model, pipeline.tokenizer, texts)
    (states,) = text_states(pipeline.model, pipeline.tokenizer, [texts])
    assert row.tokens == states.tokens and row.token_ids == states.token_ids.tolist()
    assert row.segments == states.segment_ids.tolist() and row.truncated == 0
    parts = row.parts
    np.testing.assert_allclose(parts["token"] + parts["segment"] + parts["position"], parts["sum"], atol=1e-6)
    np.testing.assert_allclose(parts["LayerNorm"], states.hidden_states[0], atol=1e-6)
    rows = {"token": states.token_ids, "segment": states.segment_ids, "position": range(len(row.tokens))}
    for name, numbers in rows.items():
        table = getattr(pipeline.model.embeddings, f"{name}_embedding").weights[0].numpy()
        np.testing.assert_allclose(parts[name], table[np.asarray(numbers)], atol=1e-6)


def test_tokens_that_did_not_fit_are_counted():
    pipeline, _ = make_pipeline("encoder")
    longest = pipeline.model.config.max_sequence_length
    row = input_row(pipeline.model, pipeline.tokenizer, ["good " * (longest + 5)])
    assert len(row.tokens) == longest and row.truncated == 7
