"""The pipeline of a model, by its task."""

from kbert.answers.choice import ChoiceAnswers
from kbert.answers.classification import ClassificationAnswers
from kbert.answers.embedding import EmbeddingAnswers
from kbert.answers.entities import EntityAnswers
from kbert.answers.fill_mask import FillMaskAnswers
from kbert.answers.next_sentence import NextSentenceAnswers
from kbert.answers.regression import RegressionAnswers
from kbert.answers.spans import SpanAnswers
from kbert.answers.tags import TagAnswers
from kbert.pipelines.pipeline import Pipeline
from kbert.preprocessing.choice_preprocessor import ChoicePreprocessor
from kbert.preprocessing.default_sequence_length import default_sequence_length
from kbert.preprocessing.document_preprocessor import DocumentPreprocessor
from kbert.preprocessing.fill_mask_preprocessor import FillMaskPreprocessor
from kbert.preprocessing.span_preprocessor import SpanPreprocessor
from kbert.preprocessing.tagging_preprocessor import TaggingPreprocessor
from kbert.preprocessing.text_preprocessor import TextPreprocessor

_TAGGING_ANSWERS = {"tags": TagAnswers, "entities": EntityAnswers}
_STORED = "stored"
OPTIONS = {  # what each task's pipeline takes beside `sequence_length`
    "classification": ("labels", "pair", "windows", "doc_stride"),
    "regression": ("pair", "windows", "doc_stride"),
    "multiple_choice": (),
    "span": ("doc_stride", "max_query_length", "n_best", "max_answer_length", "null_threshold"),
    "tagging": ("labels", "doc_stride", "answer"),
    "masked_lm": ("max_masks", "top_k"),
    "pretraining": ("max_masks", "top_k"),
    "next_sentence": ("pair",),
    "encoder": ("pair", "pooling", "normalize"),
}


def build_pipeline(
    model,
    tokenizer=None,
    *,
    labels=None,
    sequence_length=None,
    pair=None,
    max_masks=None,
    top_k=None,
    pooling=None,
    normalize=None,
    doc_stride=None,
    max_query_length=None,
    n_best=None,
    max_answer_length=None,
    null_threshold=_STORED,
    answer=None,
    windows=_STORED,
    name=None,
):
    """Puts preprocessor and answers around a model.

    What is not given comes from ``model.pretrained`` (of a model that `kbert.load_pretrained` returned), else it has
    the default named below. "Not given" is None; for `null_threshold` and `windows`, where None means "off", it is
    "stored". An option that the model's task does not take is an error.

    Args:
        model: a kbert model with task classification, regression, multiple_choice, span, tagging, next_sentence,
            masked_lm or pretraining (its masked-LM head), or an encoder (embeddings).
        tokenizer: `kbert.BertTokenizer`.
        labels: list of N strings, for classification and tagging; "0", "1", ... by default.
        sequence_length: S of the preprocessor; 128 by default (spans: 384), less where the model's position table is
            shorter.
        pair: whether the texts come in pairs; False by default (next sentence: always True).
        max_masks: the most [MASK]s of a text that are answered; 8 by default.
        top_k: how many tokens to propose for each [MASK]; 5 by default.
        pooling: how an encoder's hidden states become an embedding: "mean" (the default), "max", "cls" or "pooler".
        normalize: whether embeddings are scaled to length 1; False by default.
        doc_stride: tokens from one window of a long text to the next; 128 by default. A classifier or regressor takes
            it with `windows` only.
        max_query_length: the most tokens of a question that are read; 64 by default.
        n_best, max_answer_length: see `SpanAnswers`; 20 and 30 by default.
        null_threshold: by how much "no answer" must beat the best answer; None, the default: there always is one.
        answer: what a tagger answers with: "tags" of the words (the default) or "entities".
        windows: "mean" or "max": texts that do not fit are cut into windows, and a classifier's or regressor's logits
            pooled over them; None, the default: they are truncated.
        name: of the pipeline.

    Returns:
        `Pipeline`.

    Raises:
        ValueError: no tokenizer, one that does not fit the model, a sequence longer than the position table, more
            tokens to propose than there are, a task that has no pipeline, an option of another task.

    Example::

        pipeline = build_pipeline(BertClassifier(config), BertTokenizer("vocab.txt"), labels=["bad", "good"])
    """
    builders = {
        "classification": _classification,
        "regression": _regression,
        "multiple_choice": _multiple_choice,
        "span": _span,
        "tagging": _tagging,
        "masked_lm": _fill_mask,
        "pretraining": _fill_mask,
        "next_sentence": _next_sentence,
        "encoder": _embedding,
    }
    task = getattr(model, "task", None)
    if task not in builders:
        raise ValueError(f"build_pipeline: expected a model with a task of {sorted(builders)}. Received: {task!r}")
    given = {
        "labels": labels,
        "sequence_length": sequence_length,
        "pair": pair,
        "max_masks": max_masks,
        "top_k": top_k,
        "pooling": pooling,
        "normalize": normalize,
        "doc_stride": doc_stride,
        "max_query_length": max_query_length,
        "n_best": n_best,
        "max_answer_length": max_answer_length,
        "null_threshold": null_threshold,
        "answer": answer,
        "windows": windows,
    }
    given = _given(task, given)
    tokenizer = _tokenizer(model, tokenizer)
    settings = _settings(model, given)
    preprocessor, answers = builders[task](model, tokenizer, settings)
    return Pipeline(preprocessor, model, answers, name=name)


def _classification(model, tokenizer, settings):
    labels = _labels(model, settings)
    answers = ClassificationAnswers(labels, settings["windows"], name="answers")
    return _document_preprocessor(tokenizer, settings), answers


def _regression(model, tokenizer, settings):
    return _document_preprocessor(tokenizer, settings), RegressionAnswers(settings["windows"], name="answers")


def _multiple_choice(model, tokenizer, settings):
    preprocessor = ChoicePreprocessor(tokenizer, settings["sequence_length"], name="preprocessor")
    return preprocessor, ChoiceAnswers(name="answers")


def _span(model, tokenizer, settings):
    lengths = settings["sequence_length"], settings["doc_stride"], settings["max_query_length"]
    preprocessor = SpanPreprocessor(tokenizer, *lengths, name="preprocessor")
    limits = settings["n_best"], settings["max_answer_length"], settings["null_threshold"]
    return preprocessor, SpanAnswers(*limits, name="answers")


def _tagging(model, tokenizer, settings):
    # Windows overlap by half at least: the stride of questions, which is stored by default, would leave no overlap.
    stride = min(settings["doc_stride"], max(1, (settings["sequence_length"] - 2) // 2))
    preprocessor = TaggingPreprocessor(tokenizer, settings["sequence_length"], stride, name="preprocessor")
    if settings["answer"] not in _TAGGING_ANSWERS:
        raise ValueError(
            f"build_pipeline: `answer` must be one of {sorted(_TAGGING_ANSWERS)}. Received: {settings['answer']!r}"
        )
    return preprocessor, _TAGGING_ANSWERS[settings["answer"]](_labels(model, settings), name="answers")


def _fill_mask(model, tokenizer, settings):
    if settings["top_k"] > model.config.vocabulary_size:
        raise ValueError(
            f"build_pipeline: `top_k` must be at most the vocabulary's {model.config.vocabulary_size} tokens. "
            f"Received: {settings['top_k']}"
        )
    preprocessor = FillMaskPreprocessor(
        tokenizer, settings["sequence_length"], settings["max_masks"], name="preprocessor"
    )
    return preprocessor, FillMaskAnswers(preprocessor.tokenizer, settings["top_k"], name="answers")


def _next_sentence(model, tokenizer, settings):
    return _text_preprocessor(tokenizer, {**settings, "pair": True}), NextSentenceAnswers(name="answers")


def _given(task, options):
    """The options that were given; ValueError if the task does not take one of them."""
    off = ("null_threshold", "windows")  # for which None is a value
    given = {k: v for k, v in options.items() if (v != _STORED if k in off else v is not None)}
    taken = ("sequence_length", *OPTIONS[task])
    if other := sorted(set(given) - set(taken)):
        raise ValueError(f"build_pipeline: a {task} model takes the options {list(taken)}. Received: {other}")
    if task == "next_sentence" and given.get("pair") is False:
        raise ValueError("build_pipeline: a next_sentence model reads pairs of texts. Received: pair=False")
    return given


def _embedding(model, tokenizer, settings):
    answers = EmbeddingAnswers(settings["pooling"], settings["normalize"], name="answers")
    return _text_preprocessor(tokenizer, settings), answers


def _document_preprocessor(tokenizer, settings):
    if settings["windows"] is None:
        return _text_preprocessor(tokenizer, settings)
    if settings["pair"]:
        raise ValueError("build_pipeline: `windows` are of single texts. Received: pair=True")
    return DocumentPreprocessor(tokenizer, settings["sequence_length"], settings["doc_stride"], name="preprocessor")


def _labels(model, settings):
    labels = settings["labels"] or [str(i) for i in range(model.num_labels)]
    if len(labels) != model.num_labels:
        raise ValueError(f"build_pipeline: expected {model.num_labels} labels, as many as logits. Received: {labels}")
    return labels


def _text_preprocessor(tokenizer, settings):
    return TextPreprocessor(tokenizer, settings["sequence_length"], settings["pair"], name="preprocessor")


def _tokenizer(model, tokenizer):
    if tokenizer is None and model.pretrained is not None:
        tokenizer = model.pretrained.tokenizer
    if tokenizer is None:
        raise ValueError("build_pipeline: pass `tokenizer`; this model was not loaded with one.")
    if tokenizer.vocabulary_size != model.config.vocabulary_size:
        raise ValueError(
            "build_pipeline: the vocabulary must have as many tokens as the model's table has rows "
            f"({model.config.vocabulary_size}). Received: {tokenizer.vocabulary_size} tokens"
        )
    return tokenizer


def _settings(model, given):
    longest = model.config.max_sequence_length
    defaults = {
        "labels": None,
        "sequence_length": default_sequence_length(model.task, longest),
        "pair": False,
        "max_masks": 8,
        "top_k": min(5, model.config.vocabulary_size),
        "pooling": "mean",
        "normalize": False,
        "doc_stride": 128,
        "max_query_length": 64,
        "n_best": 20,
        "max_answer_length": 30,
        "null_threshold": None,
        "windows": None,
    }
    if model.pretrained is not None:
        defaults = {name: getattr(model.pretrained.settings, name) for name in defaults}
    defaults["sequence_length"] = min(defaults["sequence_length"], longest)
    defaults["answer"] = "tags"  # not stored: both are there for every tagger
    settings = defaults | given
    if "doc_stride" in given and settings["windows"] is None and "windows" in OPTIONS[model.task]:
        raise ValueError(
            f"build_pipeline: `doc_stride` goes with `windows`, without which texts are truncated. Received: "
            f"doc_stride={given['doc_stride']}, windows=None"
        )
    if settings["sequence_length"] > longest:
        raise ValueError(
            f"build_pipeline: `sequence_length` must be at most the model's position table, {longest}. "
            f"Received: {settings['sequence_length']}"
        )
    return settings
