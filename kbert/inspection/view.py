"""One thing that TensorBoard is given to show."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """A text, a picture or a number, under the tag by which TensorBoard files it; a tag's first part is its group.

    Args:
        content: str, Markdown for the Text tab, in which all that comes from data is escaped
            (`kbert.inspection.markdown`); a picture, uint8 [height, width, 3]; or a float.
        description: str, Markdown; what is to be seen there.
    """

    tag: str
    content: str | np.ndarray | float
    description: str = ""
