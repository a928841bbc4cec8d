"""How the settings of a run name the corpora, vocabularies and models that it was given."""

import hashlib
import json
import os

from kbert.corpus.documents import DocumentList
from kbert.text.vocabulary import check_vocabulary


def identify_source(source):
    """How settings name the text or records that a run learns from: their paths, or the hash of documents in memory."""
    if isinstance(source, DocumentList):
        return {"documents": len(source), "sha256": source.fingerprint()}
    return [os.fspath(one) for one in ([source] if isinstance(source, str | os.PathLike) else source)]


def identify_vocabulary(vocabulary):
    """How settings name a vocabulary: its path, or the hash of its tokens."""
    if vocabulary is None or isinstance(vocabulary, str | os.PathLike):
        return None if vocabulary is None else os.fspath(vocabulary)
    from kbert.corpus.records import vocabulary_hash  # not above: they load TensorFlow
    from kbert.text.tokenizer import BertTokenizer

    if isinstance(vocabulary, BertTokenizer):
        return {"sha256": vocabulary_hash(vocabulary.vocabulary), **vocabulary.settings()}
    check_vocabulary(vocabulary)
    return {"sha256": vocabulary_hash(list(vocabulary))}


def identify_model(init):
    """How settings name a model or a pipeline: its path, or the hash of all that its training depends on."""
    if init is None or isinstance(init, str | os.PathLike):
        return None if init is None else os.fspath(init)
    model = getattr(init, "model", init)
    about = [model.config.to_dict(), model.dtype_policy.name, init.settings() if model is not init else None]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for weight in model.weights:
        digest.update(f"{weight.path} {weight.trainable}".encode() + weight.numpy().tobytes())
    return {"sha256": digest.hexdigest()}
