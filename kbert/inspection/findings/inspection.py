"""What `kbert.inspect` returns.

Shapes: L layers, A heads.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbert.inspection.analysis.probes import LayerProbes
from kbert.inspection.analysis.states import TextStates
from kbert.inspection.analysis.token_attributions import TokenAttributions
from kbert.inspection.findings.projector import Embeddings


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """The results of `kbert.inspect`.

    Attributes:
        name: of the model, for headings.
        model: task and sizes.
        texts: the inspected texts: tokens, hidden states, attention.
        statistics: name of `STATISTICS` → [L, A], means over the texts.
        attributions: for each text, which tokens decided the answer. None: the model has no answer
            to it.
        probes: property → the scores of linear probes of each layer.
        syntax: agreement of the heads with syntactic heads (`head_accuracy`), or None.
        entities: attention within entities (`entity_attention`), or None.
        similarity: linear CKA of the layers of this model (rows) and of the other (columns), or
            None.
        other: name of the other model, or None.
        embeddings: what the projector shows.

    Example::

        found = kbert.inspect("saved_models/kbert-tiny", texts=["A charming journey."])
        found.statistics["to_sep"].max(), found.texts[0].tokens
    """

    name: str
    model: Mapping[str, Any]
    texts: Sequence[TextStates]
    statistics: Mapping[str, np.ndarray]
    attributions: Sequence[TokenAttributions | None] = ()
    probes: Mapping[str, LayerProbes] = dataclasses.field(default_factory=dict)
    syntax: Mapping[str, Any] | None = None
    entities: Mapping[str, Any] | None = None
    similarity: np.ndarray | None = None
    other: str | None = None
    embeddings: Sequence[Embeddings] = ()

    def __repr__(self):
        return f"<Inspection of {self.name}: {len(self.texts)} texts, probes of {list(self.probes)}>"

    def to_dict(self) -> dict[str, Any]:
        """The figures, for JSON: everything except attention, hidden states and embeddings."""
        return {
            "name": self.name,
            "model": dict(self.model),
            "texts": [
                {"texts": list(of_text.texts), "tokens": of_text.tokens, "truncated": of_text.truncated}
                for of_text in self.texts
            ],
            "head_statistics": _plain(self.statistics),
            "attributions": [None if of_text is None else of_text.to_dict() for of_text in self.attributions],
            "probes": {name: probes.to_dict() for name, probes in self.probes.items()},
            "syntax": _plain(self.syntax),
            "entities": _plain(self.entities),
            "similarity": None if self.similarity is None else {"other": self.other, "cka": _plain(self.similarity)},
        }


def _plain(value):
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
