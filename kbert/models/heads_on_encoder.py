"""What the models of tasks put on an encoder: one linear layer, after a BiLSTM if they are asked for it.

Shapes: B batch, S sequence, H hidden, N labels (outputs).
"""

from kbert.layers.bilstm import BiLstm
from kbert.layers.task_head import TaskHead


def new_head(encoder, units, name, dropout=0.0) -> TaskHead:
    """A new linear layer, initialised as the encoder."""
    stddev = encoder.config.initializer_stddev
    return TaskHead(units, dropout, stddev, dtype=encoder.dtype_policy, name=name)


def text_states(encoder, bilstm):
    """What represents a text, [B, H]: its pooled output, or the last state of a new BiLSTM on its tokens."""
    outputs = encoder(encoder.input)
    if not bilstm:
        return outputs["pooled_output"]
    lstm = BiLstm(return_sequences=False, dtype=encoder.dtype_policy, name="bilstm")
    return lstm(outputs["sequence_output"], encoder.input["padding_mask"])


def token_states(encoder, bilstm):
    """What represents each token, [B, S, H]: its last hidden state, or the state of a new BiLSTM on these."""
    states = encoder(encoder.input)["sequence_output"]
    return (
        BiLstm(dtype=encoder.dtype_policy, name="bilstm")(states, encoder.input["padding_mask"]) if bilstm else states
    )
