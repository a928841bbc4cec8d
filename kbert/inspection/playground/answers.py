"""What a model answers, by its task: filled masks, labels, entities, spans, choices, similar texts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from kbert.answers.words import EntityAnswers
from kbert.preprocessing.strings import as_text, assertion_message
from kbert.serving.signatures import signatures
from kbert.tasks.metrics import cosine

if TYPE_CHECKING:
    from kbert.pipelines.pipeline import Pipeline


@dataclasses.dataclass(frozen=True)
class Form:
    """What a task asks for, with an example.

    Attributes:
        fields: label of a text → example; one or two. Lines of the last one are texts if it is `in_lines`.
    """

    fields: Mapping[str, str]
    in_lines: bool = False


_FILL = Form({"Text with [MASK]": "The army crossed the [MASK] and attacked the town at [MASK]."})
_SIMILARITY = Form(
    {
        "Text": "How do I get a new password?",
        "Texts to compare, one a line": "Resetting your password\nOpening hours\nI forgot how to log in",
    },
    in_lines=True,
)
_BY_TASK = {
    "masked_lm": _FILL,
    "pretraining": _FILL,
    "encoder": _SIMILARITY,
    "similarity": _SIMILARITY,
    "span": Form(
        {
            "Question": "Who carried the first stone to the bank?",
            "Context": "The old bridge across the river burnt down twice within thirty years. After the second fire "
            "the mayor himself carried the first stone to the bank. The work took four summers.",
        }
    ),
    "tagging": Form({"Text": "Ada Lovelace met Charles Babbage in London, long before the British Museum had a copy."}),
    "multiple_choice": Form(
        {"Prompt": "She opened the door and", "Choices, one a line": "walked in.\nate the door.\nsang blue."},
        in_lines=True,
    ),
}
_BY_INPUTS = {
    ("text",): Form({"Text": "A charming film, although the second half is far too long."}),
    ("text", "text_pair"): Form(
        {"Text": "The river froze that winter.", "Second text": "The children skated on the ice."}
    ),
}


def form_of(pipeline: "Pipeline") -> Form:
    """The form of a pipeline's task.

    Raises:
        ValueError: there is none, as for an encoder of pairs.
    """
    names = tuple(pipeline.input_names)
    form = _BY_TASK.get(pipeline.task) or _BY_INPUTS.get(names)
    if form is None or form is _SIMILARITY and len(names) == 2:
        raise ValueError(f"The playground cannot ask the {pipeline.task} model, which reads {list(names)}.")
    return form


def ask(pipeline: "Pipeline", texts: Sequence[str]) -> dict[str, Any]:
    """The answer of a pipeline, as its task's `kbert.answers.Answers.to_dicts` gives it.

    Taggers answer ``entities``. A model of sentence embeddings answers ``similarities``, of the first text to each line
    of the second. Of equal lines the first counts.

    Args:
        texts: one for each field of `form_of`.

    Raises:
        ValueError: texts beyond the limits that a served model has.
    """
    form = form_of(pipeline)
    texts = list(texts[: len(form.fields)])
    lines = [*dict.fromkeys(filter(None, map(str.strip, texts[-1].splitlines())))] if form.in_lines else []
    names = pipeline.input_names
    if form is _SIMILARITY:
        rows = _run(pipeline, {names[0]: [texts[0], *lines]})
        vectors = np.array([row["embedding"] for row in rows])
        return {"similarities": list(zip(lines, cosine(vectors[1:], vectors[:1]).tolist(), strict=True))}
    columns = dict(zip(names, ([text] for text in texts), strict=True))
    if form.in_lines:
        columns[names[-1]] = [lines]
    (row,) = _run(pipeline, columns)
    if "choice" in row:
        row["probabilities"] = dict(zip(lines, row["probabilities"], strict=True))
    return row


def _run(pipeline, columns):
    """The answers of the pipeline's signature for entities, or of its own, within the limits of a served model."""
    served = signatures(pipeline)
    signature = served.get("entities", served["serving_default"])
    tensors = [tf.constant(columns[name], tf.string) for name in signature.inputs]
    try:
        answers = signature.function(*tensors)
    except tf.errors.InvalidArgumentError as error:
        message, _, _ = assertion_message(error).partition(", or export the model")  # nobody can on the page
        raise ValueError(message) from None
    reader = EntityAnswers(list(pipeline.answers.labels)) if "entities" in served else pipeline.answers
    return reader.to_dicts({name: as_text(np.asarray(answer)) for name, answer in answers.items()})
