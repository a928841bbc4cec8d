"""Looking into any model: attention, layers, embeddings, and which tokens decided an answer.

Shapes: V vocabulary.
"""

import importlib.util
import logging
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Union

import numpy as np
from numpy.typing import ArrayLike

from kbert.aliases import ModelSource, PathLike
from kbert.checks import check_directory
from kbert.inspection.analysis.attention_heads import heads_and_words, mean_statistics
from kbert.inspection.analysis.attributions import HEADS, explained_heads, token_attributions
from kbert.inspection.analysis.labelled_data import LabelledData, labelled_data
from kbert.inspection.analysis.probes import layer_similarity, probe_layers
from kbert.inspection.analysis.projector import labelled_vectors, word_embeddings
from kbert.inspection.analysis.report import Inspection, check_output, pictures, write_files, write_tensorboard
from kbert.inspection.analysis.states import mean_states, text_states, word_states
from kbert.models.bert_model import BertModel
from kbert.options import Count, Natural, checked
from kbert.pipelines.pipeline import Pipeline
from kbert.text.tokenizer import check_tokenizer
from kbert.weights.step_paths import MODEL

if TYPE_CHECKING:
    from kbert.tasks.examples import Examples
    from kbert.text.tokenizer import BertTokenizer

_LOGGER = logging.getLogger("kbert")
_TEXTS = ("The capital of France is Paris.", "She put the book back because it was too heavy.")
_COMPARED = 2000  # words, for comparing layers
_TEST_FRACTION = 0.2  # of `data`, if there is no `dev`


@checked
def inspect(
    model: ModelSource,
    texts: Iterable[str | tuple[str, str]] | None = None,
    data: Union[Mapping, "Examples", None] = None,
    *,
    dev: Union[Mapping, "Examples", None] = None,
    compare: ModelSource | None = None,
    tokenizer: "BertTokenizer | None" = None,
    counts: ArrayLike | None = None,
    log_dir: PathLike | None = None,
    directory: PathLike | None = None,
    overwrite: bool = False,
    name: str | None = None,
    sequence_length: Count = 128,
    max_words: Count = 5000,
    seed: Natural = 0,
) -> Inspection:
    """Inspects a model: attention, heads, probes, attributions; for TensorBoard, as files and as HTML.

    From texts come the attention of every head, statistics of the heads and, by integrated gradients, which tokens
    decided the model's answer. From labelled data come linear probes of each layer with a control task, and how the
    heads follow entities and syntax. From two models comes how similar their layers are. TensorBoard's projector shows
    word embeddings, and vectors of the data with their labels.

    Args:
        model: a kbert model, a pipeline, or what `kbert.load_pretrained` takes.
        texts: strings, or tuples of two strings (a question and its context; a pair). A model with a masked-LM head
            reads ``[MASK]`` in them. None: two sentences of English.
        data: labelled words or texts, see `kbert.inspection.analysis.labelled_data`: mappings of columns, or examples
            of `kbert.tasks.Tagging` or a text task.
        dev: labelled words or texts on which probes are scored. None: a fifth of `data`, drawn by `seed`.
        compare: another model in any form that `model` takes, such as the one before fine-tuning.
        tokenizer: for a model that was loaded without one.
        counts: how often each token of the vocabulary occurs, ints [V] (`kbert.pretraining.token_counts`). The
            projector then has the most frequent tokens, with their frequencies.
        log_dir: TensorBoard's log directory, to which the run ``inspection`` is added.
        directory: for ``report.html`` and ``figures.json``. The report and TensorBoard show pictures of attention for
            the first two texts and of attributions for the first 16.
        overwrite: whether an inspection that is in `directory` may be replaced.
        name: of the model in headings. None: its directory, or its class.
        sequence_length: tokens of a text or window, at most the encoder's.
        max_words: words (or texts) of `data`, and of `dev`, that are read.
        seed: determines control tasks and what is held out; a seed always gives equal results.

    Returns:
        `Inspection`.

    Raises:
        ValueError, TypeError: an argument that is not as described; the message names it.
        RuntimeError: the Keras backend is not TensorFlow, whose gradients explain the answers.
        FileExistsError, NotADirectoryError: `directory` holds something, or a file is in its place.

    Example::

        found = kbert.inspect("runs/sst2", ["A charming journey."], directory="runs/sst2/inspection")
        found.attributions[0].attributions
    """
    if directory is not None:
        check_output(check_directory(directory, "inspect: `directory`"), overwrite)
    if log_dir is not None:
        check_directory(log_dir, "inspect: `log_dir`")
    name = name or _name(model)
    model, tokenizer, labels = _resolve(model, tokenizer, "model")
    if compare is not None:
        other_model, other_tokenizer, _ = _resolve(compare, None, "compare", tokenizer)
    texts = _checked_texts(texts)
    data, dev = _checked_data(data, dev)
    encoder, config = model.encoder, model.config
    heads = explained_heads(model)
    reading = tokenizer.reading_special_tokens() if "masked_lm_head" in heads else tokenizer
    states = text_states(encoder, reading, texts, sequence_length)
    attributions = [None] * len(states)
    if heads:
        attributions = [token_attributions(model, tokenizer, of_text, labels=labels) for of_text in states]
    else:
        _LOGGER.info("no attributions: the %s model has no head of %s", model.task, ", ".join(sorted(HEADS)))
    _warn(states, attributions)
    embeddings = [word_embeddings(encoder, tokenizer, counts)]
    findings = {}
    words = None
    if data is not None:
        data = data.up_to(max_words)
        train, words = _split(data, seed) if dev is None else (data, dev.up_to(max_words))
        of_train, of_test = (_vectors(encoder, tokenizer, part, sequence_length) for part in (train, words))
        if importlib.util.find_spec("sklearn"):
            findings["probes"] = _probes(train, words, of_train, of_test, seed)
        else:
            _LOGGER.warning("no probes: they need scikit-learn, which the extra inspect installs")
        embeddings.append(labelled_vectors(words, of_test[:, -1]))
        if words.has_words:
            findings |= heads_and_words(encoder, tokenizer, words, sequence_length)
    if compare is not None:
        sentences = [(text if isinstance(text, str) else " ".join(text)).split() or ["."] for text in texts]
        compared = (words or LabelledData(sentences, {}, has_words=True)).up_to(_COMPARED)
        own_vectors = _vectors(encoder, tokenizer, compared, sequence_length)
        other_vectors = _vectors(other_model.encoder, other_tokenizer, compared, sequence_length)
        findings |= {"other": _name(compare), "similarity": layer_similarity(own_vectors, other_vectors)}
    facts = {
        "task": model.task,
        "layers": config.num_layers,
        "heads": config.num_heads,
        "hidden_dim": config.hidden_dim,
        "vocabulary_size": config.vocabulary_size,
        "parameters": model.count_params(),
    }
    statistics = mean_statistics([of_text.attention for of_text in states], [of_text.tokens for of_text in states])
    result = Inspection(name, facts, states, statistics, attributions, embeddings=embeddings, **findings)
    if log_dir is not None or directory is not None:
        drawn = pictures(result)
    if log_dir is not None:
        write_tensorboard(result, log_dir, drawn)
    if directory is not None:
        write_files(result, directory, drawn)
    return result


def _resolve(model, tokenizer, argument, default=None):
    """(model, tokenizer, names of its labels), from any form that `inspect` takes."""
    if isinstance(model, str | os.PathLike):
        from kbert.weights.load import load_pretrained

        model = load_pretrained(model)
    labels = None
    if isinstance(model, Pipeline):
        labels = model.answers.labels
        tokenizer = tokenizer or model.tokenizer
        model = model.model
    if not isinstance(model, BertModel):
        raise TypeError(
            f"inspect: `{argument}` must be a kbert model, a pipeline, or the path of one. Received: "
            f"{type(model).__name__}"
        )
    if model.members:
        raise ValueError(
            f"inspect: `{argument}` must be a single model. Received: an ensemble; inspect its members, each by itself"
        )
    if model.pretrained is not None:
        tokenizer = tokenizer or model.pretrained.tokenizer
        labels = labels or model.pretrained.settings.task.labels
    tokenizer = tokenizer or default
    if tokenizer is None:
        raise ValueError(f"inspect: pass `tokenizer`: the `{argument}` was not loaded with one. Received: None")
    check_tokenizer(tokenizer, "inspect")
    if tokenizer.vocabulary_size != model.config.vocabulary_size:
        raise ValueError(
            f"inspect: `tokenizer` must have as many tokens as the table of the `{argument}` has rows "
            f"({model.config.vocabulary_size}). Received: {tokenizer.vocabulary_size} tokens"
        )
    return model, tokenizer, labels


def _name(model):
    if isinstance(model, str | os.PathLike):
        path = pathlib.Path(model)
        return path.parent.name if path.name == MODEL and path.parent.name else path.name or str(path)
    return type(model.model if isinstance(model, Pipeline) else model).__name__


def _checked_texts(texts):
    if isinstance(texts, str) or not hasattr(texts, "__iter__"):
        texts = _TEXTS if texts is None else [texts]
    elif isinstance(texts, Mapping) or hasattr(texts, "columns"):
        raise TypeError(f"inspect: `texts` must be a list of strings. Received: {type(texts).__name__}")
    texts = list(texts)
    for number, text in enumerate(texts):
        parts = (text,) if isinstance(text, str) else text
        is_right = isinstance(parts, tuple | list) and all(isinstance(part, str) for part in parts)
        if not is_right or not 1 <= len(parts) <= 2:
            raise ValueError(
                f"inspect: `texts`[{number}]: expected a string, or a tuple of two strings. Received: {text!r}"
            )
    if not texts:
        raise ValueError("inspect: `texts`: expected at least one text, or None. Received: none")
    return texts


def _checked_data(data, dev):
    data = None if data is None else labelled_data(data, "data")
    dev = None if dev is None else labelled_data(dev, "dev")
    if dev is not None and data is None:
        raise ValueError("inspect: `dev` is what probes that were trained on `data` are scored on. Received: no `data`")
    if dev is not None and dev.has_words != data.has_words:
        wanted, received = ("labelled words" if part.has_words else "labelled texts" for part in (data, dev))
        raise ValueError(f"inspect: `dev`: expected {wanted}, as `data` has. Received: {received}")
    return data, dev


def _warn(states, attributions):
    for number, (of_text, explained) in enumerate(zip(states, attributions, strict=True)):
        if of_text.truncated:
            _LOGGER.warning("texts[%d]: %d tokens did not fit and were not read", number, of_text.truncated)
        if explained is not None and not explained.is_complete:
            error = 100 * explained.error
            _LOGGER.warning("texts[%d]: attributions are off by %.2g%% of what they explain", number, error)


def _split(data, seed):
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(data))
    count = max(1, round(_TEST_FRACTION * len(data)))
    if count >= len(data):
        raise ValueError(
            f"inspect: `data`: expected at least two sentences or texts, or `dev` beside it. Received: {len(data)}"
        )
    return data.take(np.sort(order[count:]).tolist()), data.take(np.sort(order[:count]).tolist())


def _vectors(encoder, tokenizer, part, sequence_length):
    states = word_states if part.has_words else mean_states
    return states(encoder, tokenizer, part.rows, sequence_length=sequence_length)


def _probes(train, test, of_train, of_test, seed):
    test_labels = test.properties()
    probes = {}
    for name, labels in train.properties().items():
        if name not in test_labels:
            raise ValueError(f"inspect: `dev`: expected the columns of `data`. Received: none called {name!r}")
        parts = (of_train, labels, train.types()), (of_test, test_labels[name], test.types())
        if len(set(labels)) > 1:
            probes[name] = probe_layers(name, *parts, seed=seed)
            _LOGGER.info(
                "probe of %s: best layer %d, accuracy %.3f", name, probes[name].best_layer, max(probes[name].accuracy)
            )
        else:
            _LOGGER.warning("no probe of %s: all words have the label %r", name, labels[0])
    return probes
