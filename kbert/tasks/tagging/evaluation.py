"""Tagged words → the windows that a tagger is trained on, its tags of them, and how these are scored and shown.

Shapes: B batch, S sequence, W windows of all texts, n words of all texts, N labels.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from kbert.aliases import PathLike
from kbert.answers.words import TagAnswers, prefix_and_type
from kbert.files import atomic_file
from kbert.inspection.markdown import escape, mark_entities, markdown_table, percent
from kbert.inspection.view import View
from kbert.tasks.scores import check_scores, cross_entropies, predict_windows
from kbert.tasks.tagging.readers import DOCUMENT_START, TaggedText
from kbert.tasks.tagging.tag_scheme import entity_chunks, entity_scores, tag_scores
from kbert.tasks.training_data import TrainingRows

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel
    from kbert.preprocessing.window_preprocessors import TaggingPreprocessor

INPUTS = ("token_ids", "segment_ids", "padding_mask")


@dataclasses.dataclass(frozen=True, eq=False)
class TaggedWindows:
    """All windows of tagged texts, tokenised once."""

    batch: Mapping[str, np.ndarray]  # the result of `TaggingPreprocessor.windows` for all texts at once
    labels: np.ndarray  # int32 [W, S]; 0 if there is none
    weights: np.ndarray  # float32 [W, S]: 1 at the first token of every word that has a label, else 0
    words: np.ndarray  # int32 [W, S]: the number of the word at its first token, else -1
    texts: Sequence[range]  # the sentences of each text

    @classmethod
    def from_tagged_text(
        cls, tagged: TaggedText, preprocessor: "TaggingPreprocessor", tags: Sequence[str], context: str = "document"
    ) -> "TaggedWindows":
        """Preprocesses texts of words: sentences or whole documents.

        A word is labelled at its first token, in every window with this token, so words in the overlap of two windows
        are learned in both contexts. Tags that are not among `tags` have weight 0.
        """
        texts = tagged.texts(context)
        words = [[word for row in text for word in tagged.words[row]] for text in texts]
        batch = preprocessor.windows(
            tf.RaggedTensor.from_row_lengths(
                tf.constant([word for text in words for word in text], tf.string), [len(text) for text in words]
            )
        )
        batch = {name: value.numpy() for name, value in batch.items()}
        index = {tag: n for n, tag in enumerate(tags)}
        ids = np.array([index.get(tag, -1) for text in texts for row in text for tag in tagged.tags[row]], "int32")
        token = batch["window_token"]  # [W, S]
        position = batch["word_position"]
        first = token.reshape(-1)[position[position >= 0]]  # [n], in the order of the words
        of_token = np.full(token.max() + 2, -1, "int32")  # the last: no token
        of_token[first] = np.arange(len(first))
        numbers = of_token[token]
        labels = np.append(ids, np.int32(-1))[numbers]
        return cls(batch, np.maximum(labels, 0), (labels >= 0).astype("float32"), numbers, texts)

    def __len__(self):
        return len(self.labels)

    @property
    def word_positions(self) -> np.ndarray:
        """Integers [n]: where in a flat [W * S] each word's first token stands, in the window with the most context."""
        position = self.batch["word_position"]
        return position[position >= 0]

    @property
    def word_labels(self) -> np.ndarray:
        """int32 [n]: the label of each word, 0 if there is none."""
        return self.labels.reshape(-1)[self.word_positions]

    @property
    def real_tokens(self) -> float:
        """Tokens of a window that are not padding, on average."""
        return float(self.batch["padding_mask"].sum()) / len(self)


def tagged_rows(windows: TaggedWindows, targets: np.ndarray | None = None) -> TrainingRows:
    """The windows as rows of ``(inputs, labels, weights)``, both {"logits": [B, S]}.

    `targets`, float32 [n, ...] of the words of all texts, replace the labels.
    """
    labels = windows.labels if targets is None else np.maximum(windows.words, 0)
    columns = {name: windows.batch[name] for name in INPUTS} | {"labels": labels, "weights": windows.weights}
    with tf.init_scope(), tf.device("CPU:0"):  # tensors: an array would be copied into the graph
        columns = {name: tf.constant(column) for name, column in columns.items()}
        targets = None if targets is None else tf.constant(targets)

    def read(rows):  # [B]
        inputs = {name: tf.gather(column, rows) for name, column in columns.items()}
        labels = inputs.pop("labels")
        weights = inputs.pop("weights")
        labels = labels if targets is None else tf.gather(targets, labels)  # [B, S, ...]
        return inputs, {"logits": labels}, {"logits": weights}

    return TrainingRows(len(windows), read, lambda: windows.batch["padding_mask"].sum(axis=1), by_token=True)


def write_predictions(path: PathLike, tagged: TaggedText, predicted: Sequence[Sequence[str]]) -> None:
    """Writes word, given tag and predicted tag in columns, as conlleval reads them.

    Columns are separated by a space, sentences by an empty line, documents of several sentences by a -DOCSTART- line.
    Tags are IOB2. White space inside a word or type, which columns cannot hold, becomes "_". The file appears
    atomically.
    """
    path = pathlib.Path(path)
    has_documents = len(tagged.texts("document")) < len(tagged)
    lines = []
    document = None
    for row, guesses in zip(range(len(tagged)), predicted, strict=True):
        if has_documents and tagged.documents[row] != document:
            document = tagged.documents[row]
            lines += [f"{DOCUMENT_START} O O", ""]
        for word, tag, guess in zip(tagged.words[row], tagged.tags[row], guesses, strict=True):
            lines.append(" ".join("_".join(cell.split()) or "_" for cell in (word, tag, guess)))
        lines.append("")
    with atomic_file(path) as file:
        file.write("\n".join(lines) + "\n")


_AS_IOB = str.maketrans("SULE", "BBII")


def evaluate_tagger(
    model: "BertModel",
    preprocessor: "TaggingPreprocessor",
    tagged: TaggedText,
    tags: Sequence[str],
    *,
    context: str = "document",
    batch_size: int = 32,
) -> tuple[dict, list[list[str]]]:
    """Tags every word of `tagged` and scores the tags.

    Returns ``{"sentences", "loss", …what `entity_scores` gives}`` and the predicted tags of each sentence. Predicted
    BIOES or BILOU tags are converted to B- and I-, and labels that are only a type get I-, so that they can be scored.
    Where the tags of `tagged` are plain, they are compared as they are, by `tag_scores`.
    """
    windows = TaggedWindows.from_tagged_text(tagged, preprocessor, tags, context)
    logits = _logits(model, windows, batch_size)
    words = {name: tf.constant(windows.batch[name]) for name in ("words", "word_position", "word_count")}
    predicted = _by_sentence(TagAnswers(list(tags))({"logits": tf.constant(logits)}, words), tagged)
    scores = (tag_scores if tagged.plain else entity_scores)(tagged.tags, predicted)
    return {"sentences": len(tagged), "loss": _loss(logits, windows), **scores}, predicted


def word_logits(model: "BertModel", windows: TaggedWindows, batch_size: int) -> np.ndarray:
    """A tagger's logits of each word, float32 [n, N], from the window with the most context."""
    return _logits(model, windows, batch_size).reshape(-1, model.num_labels)[windows.word_positions]


def _logits(model, windows, batch_size):
    """float32 [W, S, N]."""

    def read(rows):
        return {name: tf.constant(windows.batch[name][rows]) for name in INPUTS}

    lengths = windows.batch["padding_mask"].sum(axis=1)
    logits = predict_windows(model, lengths, read, windows.labels.shape[1], batch_size)["logits"]
    check_scores(logits)
    return logits


def _by_sentence(answers, tagged):
    """The tags of all texts, divided into the original sentences again."""
    tags = [tag.decode() for row in answers["tags"].numpy() for tag in row if tag]
    tags = tags if tagged.plain else list(map(_as_iob, tags))
    ends = np.cumsum([len(words) for words in tagged.words])
    return [tags[end - len(words) : end] for end, words in zip(ends, tagged.words, strict=True)]


def _as_iob(tag):
    prefix, type_ = prefix_and_type(tag)
    return tag if prefix == "O" else f"{prefix.translate(_AS_IOB)}-{type_}"


def _loss(logits, windows):
    """Mean cross-entropy of the labelled words, each in the window with the most context."""
    position = windows.word_positions
    position = position[windows.weights.reshape(-1)[position] > 0]
    logits = logits.reshape(-1, logits.shape[-1])[position]  # [n, N]
    return float(np.mean(cross_entropies(logits, windows.labels.reshape(-1)[position]))) if len(logits) else 0.0


MOST_SENTENCES = 10  # of a table


def entity_views(tagged: TaggedText, predicted: Sequence[Sequence[str]], scores: Mapping[str, Any]) -> list[View]:
    """Precision and recall by type, sentences with their entities, and those with the most errors."""
    pairs = [(entity_chunks(gold), entity_chunks(tags)) for gold, tags in zip(tagged.tags, predicted, strict=True)]
    errors = np.array([len(set(gold) ^ set(tags)) for gold, tags in pairs])
    with_entities = np.flatnonzero([bool(gold) for gold, _ in pairs])
    sample = np.unique(np.linspace(0, len(with_entities) - 1, MOST_SENTENCES).astype("int64"))
    worst = np.argsort(-errors, kind="stable")[:MOST_SENTENCES]
    rows = [[escape(name), *_cells(of_type)] for name, of_type in scores["types"].items()]
    types = markdown_table(
        ["type", "precision", "recall", "F1", "gold", "predicted"], [*rows, ["**all**", *_cells(scores)]]
    )

    def table(sentences):
        lines = []
        for row in sentences:
            gold, tags = pairs[row]
            shared = set(gold) & set(tags)
            for name, entities in (("gold", gold), ("predicted", tags)):
                where = escape(tagged.source(row)) if name == "gold" else ""
                lines.append([name, mark_entities(tagged.words[row], entities, shared), where])
        return markdown_table(["", "✓ in both, ✗ missed by the prediction (gold) or wrong (predicted)", "from"], lines)

    return [
        View("predictions/by type", f"{len(tagged):,} held-out sentences\n\n{types}"),
        View(
            "predictions/sentences",
            table(with_entities[sample]) if len(with_entities) else "No held-out sentence has an entity.",
            "Sentences with entities, evenly spread over the held-out ones: the same ones at each evaluation.",
        ),
        View(
            "predictions/worst sentences",
            table(worst[errors[worst] > 0]) if errors.any() else "Every entity is found, and no other.",
            "The sentences with the most entities that are missed or wrong.",
        ),
    ]


def tag_views(tagged: TaggedText, predicted: Sequence[Sequence[str]], scores: Mapping[str, Any]) -> list[View]:
    """Precision and recall of each plain tag, and the sentences with the most wrong tags."""
    rows = [
        [
            escape(name),
            *(percent(of_tag[metric]) for metric in ("precision", "recall", "f1")),
            f"{of_tag['examples']:,}",
        ]
        for name, of_tag in scores["labels"].items()
    ]
    pairs = [list(zip(*row, strict=True)) for row in zip(tagged.words, tagged.tags, predicted, strict=True)]
    errors = np.array([sum(tag != guess for _, tag, guess in row) for row in pairs])
    worst = [row for row in np.argsort(-errors, kind="stable")[:MOST_SENTENCES] if errors[row]]
    lines = [[escape(" ".join(_marked(*word) for word in pairs[row])), escape(tagged.source(row))] for row in worst]
    table = markdown_table(["wrong words as word/tag/prediction", "from"], lines)
    return [
        View("predictions/by tag", markdown_table(["tag", "precision", "recall", "F1", "words"], rows)),
        View("predictions/worst sentences", table if worst else "Every tag is right."),
    ]


def _marked(word, tag, guess):
    return word if tag == guess else f"{word}/{tag}/{guess}"


def _cells(scores):
    fractions = [percent(scores[name]) for name in ("precision", "recall", "f1")]
    return [*fractions, f"{scores['entities']:,}", f"{scores['predicted_entities']:,}"]
