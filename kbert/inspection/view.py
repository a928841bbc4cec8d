"""What TensorBoard shows of predictions: texts, pictures and numbers."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from kbert.inspection.board.summaries import image, scalar, text

if TYPE_CHECKING:
    from tensorboard.compat.proto.summary_pb2 import Summary


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """A text, a picture or a number, with its tag in TensorBoard; the tag's first part is its group.

    Args:
        content: str, Markdown for the Text tab, in which everything that comes from data is escaped
            (`kbert.inspection.markdown`); a picture, uint8 [height, width, 3]; or a float.
        description: str, Markdown; what the view shows.
    """

    tag: str
    content: str | np.ndarray | float
    description: str = ""

    def summary(self) -> "Summary.Value":
        """The value for an `EventFile`."""
        kinds = {str: text, np.ndarray: image}
        return kinds.get(type(self.content), scalar)(self.tag, self.content, self.description)
