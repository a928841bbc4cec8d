"""The views of answers, of a `kbert.Pipeline`'s parts or a SavedModel: filled masks, questions, entities, classes."""

import math
from typing import TYPE_CHECKING

import tensorflow as tf

from kbert.answers.pretraining import FillMaskAnswers
from kbert.answers.spans import NO_CANDIDATE
from kbert.answers.words import EntityAnswers, TagAnswers
from kbert.inspection.playground.questions import BadRequest, RequestFields, as_arrays, rounded, token_object
from kbert.inspection.playground.sources import views_of_task
from kbert.preprocessing.fill_mask_preprocessor import FillMaskPreprocessor
from kbert.tasks.pretraining import filled

if TYPE_CHECKING:
    from kbert.inspection.playground.models import PlaygroundModels

_MASKS = 20  # of a text are filled
_CANDIDATES = 10  # answers to a question that are listed


def fill_mask(models: "PlaygroundModels", fields: RequestFields) -> dict:
    """What a masked language model proposes for each [MASK]; a SavedModel gives no tokens and no positions."""
    model = models.open_any(fields.model())
    text = fields.text("text")
    top = fields.integer("top", 5, 1, 50)
    model.check_task("masked_lm", "pretraining")
    if model.exported is not None:
        (row,) = model.exported.answers.to_dicts(model.answer({"text": text}))
        tokens, positions = [], [None] * len(row["masks"])
        masks = [proposals[:top] for proposals in row["masks"]]
    else:
        preprocessor = FillMaskPreprocessor(model.tokenizer, model.max_length, max_masks=_MASKS, causal=model.is_causal)
        batch, outputs = model.run(preprocessor, {"text": text}, "text")
        answers = FillMaskAnswers(model.tokenizer, min(top, model.tokenizer.vocabulary_size))
        (row,) = answers.to_dicts(as_arrays(answers.call(outputs, batch)))
        masks = row["masks"]
        asked = batch["mask_positions"][0, : len(masks)].numpy()  # one before the mask in a left-to-right model
        positions = (asked + int(model.is_causal)).tolist()
        tokens = _tokens_around_masks(preprocessor, batch, text)
    best = text
    for number in reversed(range(len(masks))):  # from the last on, so that the others keep their numbers
        best = filled(best, number, masks[number][0]["token"])
    fills = [{"position": p, "candidates": c} for p, c in zip(positions, masks, strict=True)]
    return {"tokens": tokens, "fills": fills, "texts": [best] if fills else []}


def _tokens_around_masks(preprocessor, batch, text):
    """The tokens of the batch, with shifted offsets where only the part around the first mask was kept."""
    tokenizer = preprocessor.tokenizer
    vocabulary = preprocessor.tokenizer.vocabulary
    kept = batch["token_ids"][0][batch["padding_mask"][0]].numpy().tolist()
    ids, starts, ends = (column[0].numpy().tolist() for column in tokenizer.tokenize_with_offsets(tf.constant([text])))
    shift = ids.index(tokenizer.mask_id) + 1 - kept.index(tokenizer.mask_id) if tokenizer.mask_id in kept else 0
    tokens = []
    for position, token_id in enumerate(kept):
        is_text = 0 < position < len(kept) - 1
        place = (starts[position - 1 + shift], ends[position - 1 + shift]) if is_text else ()
        tokens.append(token_object(position, vocabulary[token_id], token_id, 0, *place))
    return tokens


def question_answering(models: "PlaygroundModels", fields: RequestFields) -> dict:
    """The answer to a question and the best spans of the context; of a SavedModel only the first has a place."""
    model = models.open_any(fields.model())
    columns = {"question": fields.text("question"), "context": fields.text("context")}
    model.check_task("span")
    if model.exported is not None:
        (row,) = model.exported.answers.to_dicts(model.answer(columns))
        candidates = _listed_candidates(row)
    else:
        batch, outputs = model.run(model.pipeline.preprocessor, columns, "context")
        answers = model.pipeline.answers
        (row,) = answers.to_dicts(as_arrays(answers.call(outputs, batch)))
        best_columns = [column[:_CANDIDATES].numpy().tolist() for column in answers.candidates(outputs, batch)[1:]]
        candidates = [
            {"answer": text.decode("utf-8", "replace"), "score": rounded(score), "start": start, "end": end}
            for score, start, end, text in zip(*best_columns, strict=True)
        ]
    return {
        "answer": row["answer"],
        "score": rounded(row["score"]),
        "start": row["start"],
        "end": row["end"],
        "null_score": rounded(row["null_score"]),
        "candidates": candidates,
    }


def _listed_candidates(row):
    """The n-best list of a SavedModel, with logarithms of its probabilities: they differ as scores do."""
    listed = [entry for entry in row["n_best"] if entry["answer"] and entry["probability"] > 0]
    if not listed or row["score"] <= NO_CANDIDATE:
        return []
    best = listed[0]["probability"]
    candidates = []
    for entry in listed[:_CANDIDATES]:
        place = (row["start"], row["end"]) if entry["answer"] == row["answer"] else (None, None)
        score = rounded(row["score"] + math.log(entry["probability"] / best))
        candidates.append({"answer": entry["answer"], "score": score, "start": place[0], "end": place[1]})
    return candidates


def entities(models: "PlaygroundModels", fields: RequestFields) -> dict:
    """The words with their tags, and the entities that the tags make."""
    model = models.open_any(fields.model())
    columns = {"text": fields.text("text")}
    model.check_task("tagging")
    if model.exported is not None:
        labels = list(model.exported.answers.labels)
        tagged = model.answer(columns, "tag")
        marked = model.answer(columns, "entities")
    else:
        batch, outputs = model.run(model.pipeline.preprocessor, columns, "text")
        labels = list(model.pipeline.answers.labels)
        tagged = as_arrays(TagAnswers(labels).call(outputs, batch))
        marked = as_arrays(EntityAnswers(labels).call(outputs, batch))
    (words,) = TagAnswers(labels).to_dicts(tagged)
    (marked,) = EntityAnswers(labels).to_dicts(marked)
    return {
        "words": [word["word"] for word in words["words"]],
        "tags": [word["tag"] for word in words["words"]],
        "entities": [
            {"text": entity["entity"]} | {name: entity[name] for name in ("type", "start", "end", "score")}
            for entity in marked["entities"]
        ],
    }


def classification(models: "PlaygroundModels", fields: RequestFields) -> dict:
    """The label of a text or pair with all probabilities, a regressor's score, or a task's plain answer."""
    model = models.open_any(fields.model())
    text = fields.text("text")
    text_pair = fields.optional_text("text_pair")
    own = model.exported or model.model
    if own is None or "classification" not in views_of_task(own.task):
        model.check_task("classification", "regression")  # it is of none, so this raises
    part = model.exported or model.pipeline
    if others := set(part.input_names) - {"text", "text_pair"}:
        raise BadRequest(f"Expected a model that reads a text or a pair. Received: one that reads {sorted(others)}")
    columns = {"text": text, "text_pair": text_pair}
    if "text_pair" in part.input_names and text_pair is None:
        raise BadRequest("`text_pair`: expected a string, as this model reads pairs. Received: nothing")
    columns = {name: columns[name] for name in part.input_names}
    if model.exported is not None:
        answers = model.answer(columns)
    else:
        batch, outputs = model.run(part.preprocessor, columns, "text")
        answers = as_arrays(part.answers.call(outputs, batch))
    (row,) = part.answers.to_dicts(answers)
    if own.task not in ("classification", "regression"):
        return {"answer": row}
    if "score" in row:
        return {"score": rounded(row["score"])}
    label = row["label"] if "label" in row else ", ".join(row["labels"])
    ordered = sorted(row["probabilities"].items(), key=lambda item: -item[1])
    return {"label": label, "probabilities": [{"label": name, "probability": fraction} for name, fraction in ordered]}
