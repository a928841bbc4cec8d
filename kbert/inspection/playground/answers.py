"""What a model answers, by its task: filled masks, labels, entities, spans, choices, similar texts."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from kbert.answers.words import EntityAnswers
from kbert.preprocessing.strings import as_text
from kbert.serving.exported_pipeline import ExportedPipeline
from kbert.serving.signatures import signatures

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


_FORMS = {
    "fill": Form({"Text with [MASK]": "The army crossed the [MASK] and attacked the town at [MASK]."}),
    "text": Form({"Text": "A charming film, although the second half is far too long."}),
    "pair": Form({"Text": "The river froze that winter.", "Second text": "The children skated on the ice."}),
    "span": Form(
        {
            "Question": "Who carried the first stone to the bank?",
            "Context": "The old bridge across the river burnt down twice within thirty years. After the second fire "
            "the mayor himself carried the first stone to the bank. The work took four summers.",
        }
    ),
    "tagging": Form({"Text": "Ada Lovelace met Charles Babbage in London, long before the British Museum had a copy."}),
    "multiple_choice": Form(
        {"Prompt": "She opened the door and", "Choices, one a line": "walked in.\nate the door.\nsang blue."}, True
    ),
    "similarity": Form(
        {
            "Text": "How do I get a new password?",
            "Texts to compare, one a line": "Resetting your password\nOpening hours\nI forgot how to log in",
        },
        True,
    ),
}


def form_of(pipeline: "Pipeline | ExportedPipeline") -> Form:
    """The form of a pipeline's task.

    Raises:
        ValueError: the model reads something else than texts and pairs, or gives no answers.
    """
    names = tuple(pipeline.input_names)
    if pipeline.task in ("masked_lm", "pretraining"):
        return _FORMS["fill"]
    if pipeline.task in _FORMS:
        return _FORMS[pipeline.task]
    if pipeline.task == "encoder":
        return _FORMS["similarity"]
    forms = {("text",): "text", ("text", "text_pair"): "pair"}
    if names not in forms:
        raise ValueError(f"Expected a model that reads a text or a pair. Received: one that reads {list(names)}")
    return _FORMS[forms[names]]


def ask(pipeline: "Pipeline | ExportedPipeline", texts: Sequence[str]) -> dict[str, Any]:
    """The answer of a pipeline, as its task's `kbert.answers.Answers.to_dicts` gives it.

    Taggers answer ``entities``. A model of sentence embeddings answers ``similarities``, of the first text to each line
    of the second.

    Args:
        texts: one for each field of `form_of`.

    Raises:
        ValueError: texts beyond the limits that a served model has.
    """
    form = form_of(pipeline)
    texts = list(texts[: len(form.fields)])
    lines = [line.strip() for line in texts[-1].splitlines() if line.strip()] if form.in_lines else []
    names = pipeline.input_names
    if form is _FORMS["similarity"]:
        answers, _ = _run(pipeline, {names[0]: [texts[0], *lines]})
        vectors = np.asarray(answers["embedding"], "float64")
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return {"similarities": list(zip(lines, (vectors[1:] @ vectors[0]).tolist(), strict=True))}
    columns = dict(zip(names, ([text] for text in texts), strict=True))
    if form.in_lines:
        columns[names[-1]] = [lines]
    answers, made_by = _run(pipeline, columns)
    (row,) = made_by.to_dicts(answers)
    if "choice" in row:
        row["probabilities"] = dict(zip(lines, row["probabilities"], strict=True))
    return row


def _run(pipeline, columns):
    """Answers of the pipeline's signature for entities, or of its own, and the `Answers` that read them."""
    if isinstance(pipeline, ExportedPipeline):
        if "entities" in pipeline.signatures:
            return pipeline.predict_on_batch(columns, "entities"), EntityAnswers(pipeline.answers.labels)
        return pipeline.predict_on_batch(columns), pipeline.answers
    served = signatures(pipeline)
    signature = served.get("entities", served["serving_default"])
    tensors = [tf.constant(columns[name], tf.string) for name in signature.inputs]
    try:
        answers = signature.function(*tensors)
    except tf.errors.InvalidArgumentError as error:
        limit = re.search(r"A request may hold .*?Received: [\d,]+", error.message)
        raise ValueError(limit[0] if limit else error.message.partition("\n")[0]) from None
    made_by = EntityAnswers(list(pipeline.answers.labels)) if "entities" in served else pipeline.answers
    return {name: as_text(np.asarray(answer)) for name, answer in answers.items()}, made_by
