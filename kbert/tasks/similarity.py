"""Similarity: embeddings of texts, trained on pairs, triplets or single texts.

Shapes: B examples of a batch, t texts of an example, S sequence, n examples.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from kbert.options import Count, Positive
from kbert.tasks.examples import Examples
from kbert.tasks.labelled_text import label_scores
from kbert.tasks.metrics import NUMBER_METRICS, SEARCH_METRICS, cosine, random_search_scores, search_scores
from kbert.tasks.table import Table, check_texts
from kbert.tasks.task import Evaluation, Task, TrainingData, of_training

if TYPE_CHECKING:
    from kbert.answers.answers import Answers
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.preprocessing.preprocessor import Preprocessor
    from kbert.text.tokenizer import BertTokenizer

PAIR_METRICS = ("spearman", "pearson")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RelatedTexts(Examples):
    """Texts, each with a text of the same meaning, one of another meaning, or a score of their similarity."""

    texts: Sequence[str]
    text_pairs: Sequence[str] | None = None  # None: single texts
    negatives: Sequence[str] | None = None  # hard negatives, "" where an example has none
    scores: np.ndarray | None = None  # float32 [n], how similar the texts of a pair are; None: they belong together
    path: str | None = None
    lines: Sequence[int] = ()

    row_fields = ("texts", "text_pairs", "negatives", "scores")

    @property
    def columns(self) -> dict[str, Sequence[str]]:
        named = {"text": self.texts, "text_pair": self.text_pairs, "negative": self.negatives}
        return {name: texts for name, texts in named.items() if texts is not None}

    def baseline(self) -> float | None:
        """The mean score. None without scores, where the baseline is a random order."""
        return None if self.scores is None else float(self.scores.mean())


@dataclasses.dataclass(frozen=True)
class Similarity(Task):
    """Trains embeddings: texts that belong together come near each other, others far.

    The columns choose the loss. With `label`, the cosine of each pair is fitted to its score. Otherwise each text has
    to find its `text_pair` among the pairs of the whole batch, and its `negative` is one more text to tell apart. With
    `text` alone each text is its own pair, embedded twice with different dropout (SimCSE).

    Its model answers ``embedding``. A dev set with scores is scored by ``spearman`` and ``pearson`` of the cosine. One
    without scores is scored by a search for each text's pair among all pairs and negatives.

    Args:
        text, text_pair, negative, label: names of columns.
        score_range: the lowest and the highest score of `label`, which become cosines of 0 and 1.
        pooling: how hidden states become an embedding: "mean", "max" or "cls".
        normalize: whether embeddings have length 1.
        temperature: what similarities are divided by before the softmax.
        symmetric: whether each pair has to find its text, too.
        dimensions: lengths of shorter embeddings that are trained, too (Matryoshka). They are the first components.
        metrics: one or more of ``spearman, pearson``, or of ``recall@1, recall@10, mrr@10, ndcg@10``. The first one
            chooses the best epoch. Empty: all that fit the columns.

    Raises:
        ValueError: columns that contradict each other, unknown metrics, or metrics that do not fit the dev set.

    Source: Reimers and Gurevych 2019 (Sentence-BERT); Gao, Yao and Chen 2021 (SimCSE).

    Example::

        task = Similarity(text="question", text_pair="duplicate")
    """

    text: str = "text"
    text_pair: str | None = None
    negative: str | None = None
    label: str | None = None
    score_range: tuple[float, ...] = (0.0, 1.0)
    pooling: Literal["mean", "max", "cls"] = of_training("mean")
    normalize: bool = of_training(True)
    temperature: Positive = of_training(0.05)
    symmetric: bool = of_training(False)
    dimensions: tuple[Count, ...] = of_training(())
    metrics: tuple[str, ...] = ()

    name = "similarity"
    model_name = "BertSentenceEncoder"
    answer_names = {"embedding": "SentenceEmbeddings"}
    signature = "embed"
    even_batches = True
    reading = ("text", "text_pair", "negative", "label", "score_range")

    def __post_init__(self):
        super().__post_init__()
        self._check_metrics((*PAIR_METRICS, *SEARCH_METRICS))
        if self.text_pair is None and (self.negative or self.label):
            raise ValueError("Similarity: `negative` and `label` need `text_pair`. Received: text_pair=None")
        if self.negative and self.label:
            raise ValueError("Similarity: give `negative` or `label`, not both.")
        low, high = self.score_range if len(self.score_range) == 2 else (0.0, 0.0)
        if not low < high:
            raise ValueError(
                f"Similarity: `score_range` must be (lowest, highest score). Received: {self.score_range!r}"
            )

    def _prepared(self, name, value):
        value = super()._prepared(name, value)
        default = PAIR_METRICS if self.label else SEARCH_METRICS
        return default if name == "metrics" and value in ((), []) else value

    # Its model

    def parts(
        self, model: "BertModel", tokenizer: "BertTokenizer", sequence_length: int
    ) -> "tuple[Preprocessor, Answers]":
        from kbert.answers.embedding import SentenceEmbeddings
        from kbert.preprocessing.preprocessor import TextPreprocessor

        return TextPreprocessor(tokenizer, sequence_length, name="preprocessor"), SentenceEmbeddings(name="answers")

    def settings(self, train: RelatedTexts) -> dict[str, Any]:
        return {
            "pooling": self.pooling,
            "normalize": self.normalize,
            "loss_name": "multiple_negatives" if self.label is None else "cosine",
            "temperature": self.temperature,
            "symmetric": self.symmetric,
            "dimensions": self.dimensions,
        }

    # Its examples

    @property
    def table_columns(self) -> list[str]:
        return [name for name in (self.text, self.text_pair, self.negative, self.label) if name is not None]

    def _from_table(self, table: Table) -> RelatedTexts:
        check_texts(table, [name for name in (self.text, self.text_pair) if name is not None])
        pairs, negatives = (name and table[name] for name in (self.text_pair, self.negative))
        scores = None
        if self.label is not None:
            low, high = self.score_range
            scores = (label_scores(table, self.label, low, high) - low) / (high - low)
        return RelatedTexts(table[self.text], pairs, negatives, scores, table.path, table.lines)

    def for_training(self, train: RelatedTexts) -> tuple[Self, RelatedTexts]:
        expects = "scores" if self.label else "texts without scores"
        if (train.scores is not None) != (self.label is not None):
            raise ValueError(f"Similarity: expected training examples with {expects}. Received: the others")
        return self, train

    def check_dev(self, dev: RelatedTexts, settings: Mapping[str, Any]) -> None:
        self._check_metrics_of(dev)

    def check_examples(self, pipeline: "Pipeline", examples: RelatedTexts) -> None:
        self._check_metrics_of(examples)

    def _check_metrics_of(self, examples):
        metrics = SEARCH_METRICS if examples.scores is None else PAIR_METRICS
        if set(self.metrics) - set(metrics):
            raise ValueError(
                f"Similarity: these examples are scored by {list(metrics)}. Received: metrics={self.metrics!r}"
            )
        if examples.text_pairs is None:
            raise ValueError("Similarity: single texts cannot be scored. Give a dev set of pairs.")

    # Its training and its scores

    def check_training(self, pipeline: "Pipeline", train: RelatedTexts, class_weight: Any) -> None:
        super().check_training(pipeline, train, class_weight)
        config = pipeline.model.config
        if train.text_pairs is None and not (config.hidden_dropout or config.attention_dropout):
            raise ValueError(
                "Similarity: a single text is embedded twice, with different dropout. Expected a model with dropout, "
                "as finetune(dropout=0.1) makes it. Received: dropout=0"
            )

    def training_data(self, pipeline: "Pipeline", train: RelatedTexts, **batches) -> TrainingData:
        import tensorflow as tf

        from kbert.tasks import training_data as data

        columns = [train.texts, train.texts if train.text_pairs is None else train.text_pairs]
        columns += [] if train.negatives is None else [train.negatives]
        texts = data.row_reader({str(text): list(column) for text, column in enumerate(columns)})
        if train.scores is None:
            labels = tf.constant(text_numbers(columns))  # [n, t]
        else:
            labels = tf.constant(train.scores, tf.float32)  # [n]

        def read(rows):  # [B]
            texts_of_rows = tf.stack(list(texts(rows).values()), axis=1)  # [B, t]
            inputs = pipeline.preprocessor({"text": tf.reshape(texts_of_rows, [-1])})
            return inputs, {"embedding": tf.gather(labels, rows)}

        def sizes():
            return np.max([data.token_counts(part, pipeline.preprocessor) for part in parts], axis=0)

        parts = [RelatedTexts(column) for column in columns]
        tokens = sum(data.real_tokens(part, pipeline.preprocessor) for part in parts)
        return data.as_training_data(data.TrainingRows(len(train), read, sizes), tokens, **batches)

    def evaluate(
        self,
        pipeline: "Pipeline",
        examples: RelatedTexts,
        *,
        batch_size: int = 32,
        static: bool = False,
        choose: bool = False,
    ) -> Evaluation:
        from kbert.tasks.scores import predict_scores

        columns = examples.columns
        numbers = text_numbers(list(columns.values()))  # [n, t]
        distinct, first = np.unique(numbers, return_index=True)
        all_texts = np.array([list(texts) for texts in columns.values()], object).T.ravel()
        embeddings = np.zeros((int(numbers.max()) + 1, pipeline.model.config.hidden_dim), "float32")
        texts = {"text": all_texts[first].tolist()}
        embeddings[distinct] = predict_scores(pipeline, texts, batch_size=batch_size, static=static)
        scores = {"examples": len(examples)} | self._scores(embeddings, numbers, examples)
        return Evaluation(scores, embeddings[numbers[:, 0]])

    def _scores(self, embeddings, numbers, examples):
        from kbert.pipelines.search import search

        if examples.scores is not None:
            vectors = embeddings.astype("float64")
            cosines = cosine(vectors[numbers[:, 0]], vectors[numbers[:, 1]])
            return {name: NUMBER_METRICS[name](examples.scores, cosines) for name in self.metrics}
        collection = _collection(numbers)
        relevant: dict[int, set[int]] = {}
        for query, pair in numbers[:, :2]:
            relevant.setdefault(int(query), set()).add(int(np.searchsorted(collection, pair)))
        results = search(None, embeddings[collection], embeddings[list(relevant)], min(10, len(collection)))
        scores = search_scores(results.rows, list(relevant.values()))
        return {name: scores[name] for name in self.metrics}

    def baseline_scores(self, answer: float | None, examples: RelatedTexts) -> dict[str, float]:
        if examples.scores is not None:
            return dict.fromkeys(self.metrics, 0.0)  # a constant has no correlation
        random = random_search_scores(len(_collection(text_numbers(list(examples.columns.values())))))
        return {name: random[name] for name in self.metrics}


def text_numbers(columns: Sequence[Sequence[str]]) -> np.ndarray:
    """Numbers of the texts of t columns, int32 [n, t]: from 1, equal for equal texts, and 0 for ""."""
    numbers = {"": 0}
    rows = [[numbers.setdefault(text, len(numbers)) for text in row] for row in zip(*columns, strict=True)]
    return np.array(rows, "int32")


def _collection(numbers: np.ndarray) -> np.ndarray:
    """The numbers of the texts that are searched: all pairs, and all negatives that are not empty."""
    negatives = numbers[:, 2:]
    return np.union1d(numbers[:, 1], negatives[negatives > 0])
