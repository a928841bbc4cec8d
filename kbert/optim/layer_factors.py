"""Learning rates that fall from one layer to the one below."""

import re

_BLOCK = re.compile(r"(?:^|/)encoder_block_(\d+)/")
_EMBEDDINGS = re.compile(r"(?:^|/)embeddings/")


def layer_factors(paths, layer_decay) -> list[float]:
    """The factor of each variable's learning rate."""
    if layer_decay is None:
        return [1.0] * len(paths)
    blocks = [found and int(found[1]) for found in map(_BLOCK.search, paths)]
    above = max((number + 1 for number in blocks if number is not None), default=0)  # L
    return [
        layer_decay ** (above + 1 if _EMBEDDINGS.search(path) else 0 if number is None else above - number)
        for path, number in zip(paths, blocks, strict=True)
    ]
