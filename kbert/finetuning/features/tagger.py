"""The tagger of the feature-based approach: an LSTM over a frozen encoder's features of each word.

Shapes: B batch, T words, L layers, H hidden, N labels.
"""

import keras

from kbert.finetuning.features.modes import feature_layers
from kbert.layers.replica_dropout import ReplicaDropout
from kbert.layers.scalar_mix import ScalarMix
from kbert.layers.task_head import TaskHead


def feature_tagger(
    mode: str, num_layers: int, hidden_dim: int, num_labels: int, *, units: int = 768, dropout: float = 0.1
) -> keras.Model:
    """Two bidirectional LSTMs and a linear layer on fixed features of words.

    The `mode` says how the L layers of `feature_layers` become one vector per word: concatenated ("concat…") or as a
    learned weighted sum ("weighted-sum…"). `units` are those of each LSTM in each direction, `dropout` is the rate
    before each LSTM and before the linear layer.

    Inputs: ``features`` float32 [B, T, L, H]; ``mask`` bool [B, T], False beyond the end.

    Outputs: ``logits`` float32 [B, T, N].

    Source: Devlin et al. 2018, section 5.3: "a randomly initialized two-layer 768-dimensional BiLSTM before the
    classification layer".
    """
    count = len(feature_layers(mode, num_layers))
    features = keras.Input((None, count, hidden_dim), name="features")
    mask = keras.Input((None,), dtype="bool", name="mask")
    if mode.startswith("weighted-sum"):
        x = ScalarMix(name="weighted_layers")(features)  # [B, T, H]
    else:
        x = keras.layers.Reshape((-1, count * hidden_dim), name="concat")(features)  # [B, T, L * H]
    for number in range(2):
        x = ReplicaDropout(dropout, name=f"dropout_{number}")(x)
        lstm = keras.layers.LSTM(units, return_sequences=True)
        x = keras.layers.Bidirectional(lstm, name=f"lstm_{number}")(x, mask=mask)  # [B, T, 2 * units]
    logits = TaskHead(num_labels, dropout, name="tagger_head")(x)
    return keras.Model({"features": features, "mask": mask}, {"logits": logits}, name="feature_tagger")
