"""What TensorBoard shows of a model's choices.

Shapes: C choices, n questions.
"""

import numpy as np

from kbert.inspection.examples.classification_views import label_views
from kbert.inspection.markdown import escape, percent
from kbert.inspection.view import View
from kbert.tasks.multiple_choice.labelled_choices import LabelledChoices

_MOST_CHARACTERS = 200


def choice_views(examples: LabelledChoices, probabilities: np.ndarray) -> list[View]:
    """As of a classifier, with the numbers of the choices as labels, which shows whether a place is preferred."""

    def cells(row):
        label, chosen, lines = int(examples.labels[row]), int(np.argmax(probabilities[row])), []
        for n, text in enumerate(examples.choices[row]):
            mark = "✓ " if n == label else "✗ " if n == chosen else ""
            stars = "**" if n == label else "*" if n == chosen else ""
            shown = f"{stars}{escape(text, _MOST_CHARACTERS)}{stars}" if text.strip() else "–"
            lines.append(f"{mark}{n}: {shown} ({percent(probabilities[row, n])})")
        prompt = escape(examples.prompts[row], _MOST_CHARACTERS)
        return [prompt, "<br>".join(lines), escape(examples.source(row))]

    names = [str(n) for n in range(probabilities.shape[1])]
    return label_views(probabilities, examples.labels, names, ["prompt", "choices", "from"], cells)
