"""What `load_pretrained` finds besides the weights."""

import dataclasses

from kbert.pipelines.settings import ModelSettings
from kbert.text.tokenizer import BertTokenizer
from kbert.weights.report import LoadReport


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """The value of ``model.pretrained``: tokenizer, settings and report of a loaded model.

    Example::

        model = kbert.load_pretrained("runs/sst2/model")
        model.pretrained.settings.labels  # ["negative", "positive"]
        print(model.pretrained.report)
    """

    tokenizer: BertTokenizer | None  # None: the checkpoint has no vocabulary
    settings: ModelSettings
    report: LoadReport
