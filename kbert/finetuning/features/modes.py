"""Which hidden states of a frozen encoder are the features of a word, as in table 7 of the paper.

Shapes: L layers of the encoder.
"""

FEATURE_MODES = (  # of the paper's table 7, in its order
    "embeddings",
    "second-to-last",
    "last",
    "weighted-sum-last-four",
    "concat-last-four",
    "weighted-sum-all",
)
PAPER = dict(zip(FEATURE_MODES, (91.0, 95.6, 94.9, 95.9, 96.1, 95.5), strict=True))  # Table 7: F1 on CoNLL-2003's dev


def feature_layers(mode: str, num_layers: int) -> tuple[int, ...]:
    """Which hidden states a feature mode reads, as numbers from 0 (the embeddings) to L (the last layer).

    For an encoder of fewer than four layers, "last four" means all.
    """
    last_four = tuple(range(max(1, num_layers - 3), num_layers + 1))
    layers = {
        "embeddings": (0,),
        "second-to-last": (num_layers - 1,),
        "last": (num_layers,),
        "weighted-sum-last-four": last_four,
        "concat-last-four": last_four,
        "weighted-sum-all": tuple(range(1, num_layers + 1)),
    }
    if mode not in layers:
        raise ValueError(f"feature_layers: `mode` must be one of {FEATURE_MODES}. Received: {mode!r}")
    return layers[mode]
