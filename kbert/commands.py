"""The command `kbert`: every verb of the library, from a text file to a served model.

What a command takes is the signature of its verb (`kbert.cli`). Verbs of which only the command has a use stand here;
all of them import what does the work when they run, so that ``kbert --help`` is there at once.
"""

import itertools
import json
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import kbert
from kbert.checks import check_output_file
from kbert.cli import Command, run_command, suggest
from kbert.finetuning.evaluate import evaluate
from kbert.finetuning.finetune import finetune
from kbert.finetuning.grid import finetune_glue
from kbert.options import Count, Machine, Natural, PathLike, Positive, ShareBelowOne, to_json, verb

Precision = Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"]
Format = Literal["auto", "lines", "prose", "wikiextractor", "parquet"]
MASK = "[MASK]"


def _given(**options) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


# Fine-tune and evaluate


def _tasks() -> Mapping[str, Callable]:
    tasks = kbert.tasks
    return {
        "classification": tasks.Classification,
        "regression": tasks.Regression,
        "span": tasks.SpanExtraction,
        "tagging": tasks.Tagging,
        "multiple_choice": tasks.MultipleChoice,
        "glue": tasks.glue,
    }


def report_finetuned(run) -> None:
    """Prints the scores beside those of a constant answer, and where the model is; of a dry run the estimate."""
    metrics = run.metrics
    if "seconds_per_step" in metrics:
        from kbert.training.dry_run import format_estimate

        print(format_estimate(metrics))
        return
    constant = metrics.get("constant_answer", {})
    for name, value in metrics.get("dev", {}).items():
        if isinstance(value, float) and name != "loss":
            print(f"{name}: {value:.4f}" + (f"  (constant answer: {constant[name]:.4f})" if name in constant else ""))
        elif isinstance(value, Mapping):  # entities by type
            for kind, scores in value.items():
                print(f"{kind}: " + ", ".join(f"{metric} {score:.4f}" for metric, score in scores.items()))
    where = "" if run.path is None else f"; the model is in {run.path / 'model'}"
    print(f"{metrics['minutes']:.1f} minutes{where}")


def report_scores(scores: Mapping[str, Any]) -> None:
    """Prints the scores of `kbert.evaluate`."""
    from kbert.finetuning.run_evaluation import describe_scores

    print(describe_scores(scores))


def report_glue(result: Mapping[str, Any]) -> None:
    """Prints the tables of `finetune_glue`, beside the paper's; of a dry run what is left to do."""
    if "average" not in result:
        from kbert.training.dry_run import format_estimate

        for name, left in result["tasks"].items():
            print(f"{name}: {left['runs']} runs left")
            if left["first"] is not None:
                print(format_estimate(left["first"]))
        return
    from kbert.tasks.glue_benchmark.table import describe_all

    print(describe_all(result))


def glue_submission(
    directory: PathLike,
    output: PathLike,
    *,
    runs: PathLike | None = None,
    models: list[str] = (),
    constant: list[str] = (),
    batch_size: Count = 32,
    machine: Machine = Machine(),
    overwrite: bool = False,
) -> str:
    """Answers the GLUE test files, in the format of the server at gluebenchmark.com.

    MNLI's model also answers the diagnostic set, AX.

    Args:
        directory: of the GLUE files.
        output: directory that receives a .tsv for each test file, and submission.zip, ready to upload.
        runs: the output of ``kbert glue``, with a folder for each task.
        models: TASK=SOURCE, the model of a task; several of a task are an ensemble, which averages their probabilities.
        constant: tasks that are answered with the most frequent label of their training file, such as WNLI, which the
            paper skips.
        batch_size: texts per batch.
        machine: where it runs.
        overwrite: replace what is in `output`.

    Returns:
        What was written and what the server still requires.
    """
    from kbert.tasks.glue_benchmark.submission import collect_models, files_to_read, parse_models, submit
    from kbert.tasks.glue_benchmark.tasks import glue_name
    from kbert.training.hardware import choose_hardware
    from kbert.training.run_directory import open_run

    if not (runs or models or constant):
        raise ValueError("glue-submission: expected `runs`, `models` or `constant`. Received: none of them")
    given, constant = parse_models(models), [glue_name(name) for name in constant]
    collected = collect_models(runs, given, constant)
    hardware = choose_hardware(machine.strategy, machine.precision, logical_cpus=machine.logical_cpus)
    settings = {"directory": directory, "runs": runs, "models": list(models), "constant": constant}
    inputs = {
        "directory": files_to_read(collected, constant, directory),
        "models": [path for _, path in given] or None,
        "runs": [path for paths in collected.values() for path in paths if runs and str(path).startswith(str(runs))],
    }
    run = open_run(output, to_json(settings), overwrite, inputs=inputs, recipe="kbert glue-submission")
    with hardware.scope():
        written = submit(collected, constant, directory, run.path, batch_size)
    run.finish({})
    return written


def tag_features(
    source: PathLike,
    train: PathLike,
    output: PathLike,
    *,
    dev: ShareBelowOne | PathLike = 0.1,
    tag_column: int = -1,
    scheme: str | None = None,
    feature_modes: list[str] = (),
    epochs: Positive = 10.0,
    steps: Count | None = None,
    batch_size: Count = 32,
    learning_rate: Positive = 1e-3,
    units: Count = 768,
    dropout: ShareBelowOne = 0.1,
    sequence_length: Count = 128,
    seed: Natural = 0,
    checkpoint_every: Count = 100,
    evaluate_every: Literal["epoch"] | Count | None = "epoch",
    precision: Precision = "auto",
    profile: str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Finds named entities without fine-tuning, as in table 7 of the paper: a BiLSTM on a frozen encoder's features.

    The encoder reads whole documents once: the hidden states of each word's first token are written to ``features/`` in
    `output` (words x (layers + 1) x hidden x 2 bytes, which may be deleted at the end), and the taggers of all feature
    modes are trained on these. The paper gives neither learning rate nor epochs; here Adam's rate falls linearly to 0.
    The same command resumes: finished features and modes are not computed again.

    Args:
        source: the encoder.
        train, dev: files of tagged words in columns, as of CoNLL-2003; a share as `dev`: of the documents of `train`.
        output: directory that receives a folder for each mode, and the table when all six are finished.
        tag_column: column of the tag, from 0 or from the end.
        scheme: of the tags: iob1, iob2, bioes or bilou; None: recognised.
        feature_modes: of embeddings, second-to-last, last, weighted-sum-last-four, concat-last-four and
            weighted-sum-all; none: all.
        epochs, steps, batch_size, learning_rate, seed, checkpoint_every, evaluate_every: of each tagger's training.
        units: of each LSTM in each direction.
        dropout: rate of the BiLSTM.
        sequence_length: tokens of a window; longer texts have several.
        precision: of the encoder.
        profile: steps to profile for TensorBoard, as "20:25".
        overwrite: delete what is in `output`.
        dry_run: train nothing, and estimate what is left to do.

    Returns:
        The metrics of each finished mode; of a dry run the estimate.
    """
    from kbert.finetuning.features.estimate import estimate_feature_taggers
    from kbert.finetuning.features.train import FeatureTraining, train_feature_taggers
    from kbert.models.feature_modes import FEATURE_MODES
    from kbert.training.hardware import choose_hardware
    from kbert.training.run_directory import open_run

    if wrong := [mode for mode in feature_modes if mode not in FEATURE_MODES]:
        raise ValueError(f"tag-features: `feature_modes` must be of {list(FEATURE_MODES)}. Received: {wrong[0]!r}")
    task = kbert.tasks.Tagging(tag_column=tag_column, scheme=scheme)
    words = task.read(train)
    texts = dict(zip(("train", "dev"), words.split(dev), strict=True)) if isinstance(dev, float) else {"train": words}
    texts.setdefault("dev", None if isinstance(dev, float) else task.read(dev))
    tags = task.settings(texts["train"])["labels"]
    hardware = choose_hardware("one", precision)
    with hardware.scope():
        encoder = kbert.load_pretrained(
            source, task="encoder", outputs=("hidden_states",), sequence_length=sequence_length
        )
    training = FeatureTraining(
        epochs=epochs,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        units=units,
        dropout=dropout,
        seed=seed,
        checkpoint_every=checkpoint_every,
        evaluate_every=evaluate_every,
    )
    modes = tuple(feature_modes) or FEATURE_MODES
    if dry_run:
        with hardware.scope():
            return estimate_feature_taggers(
                encoder, texts, tags, output, modes, sequence_length=sequence_length, training=training
            )
    settings = {"source": source, "dev": dev, "sequence_length": sequence_length, "training": vars(training)}
    inputs = {"source": source, "train": train} | ({} if isinstance(dev, float) else {"dev": dev})
    settings = to_json(settings | {"task": task.to_dict(), "precision": precision})
    run = open_run(output, settings, overwrite, inputs=inputs, recipe="kbert tag-features")
    with hardware.scope():
        done = train_feature_taggers(
            encoder,
            texts,
            tags,
            run.path,
            modes,
            sequence_length=sequence_length,
            settings=settings,
            inputs=inputs,
            recipe="kbert tag-features",
            training=training,
            profile=profile,
        )
    metrics = {"feature_modes": done, "train_examples": len(texts["train"])}
    if len(done) == len(FEATURE_MODES):
        run.finish(metrics)
    return metrics


def report_taggers(metrics: Mapping[str, Any]) -> None:
    """Prints the table beside the paper's; of a dry run the estimate."""
    from kbert.finetuning.features.estimate import describe_estimate
    from kbert.finetuning.features.table import describe_scores

    print(describe_scores(metrics["feature_modes"]) if "feature_modes" in metrics else describe_estimate(metrics))


# Use a model


def _predict(asked) -> dict[str, Any]:
    from kbert.files import write_json
    from kbert.finetuning.predict_file import predict_file
    from kbert.finetuning.predict_file_with_beam import predict_file_with_beam
    from kbert.serving.pipeline_loader import pipeline_loader
    from kbert.serving.provenance import trained_options

    start = time.monotonic()
    if asked.runner is None and (asked.beam_flags or asked.shared):
        raise ValueError("predict: `shared`, and flags after --, need `runner`. Received: no runner")
    metrics_path = pathlib.Path(asked.output).with_suffix(".metrics.json")
    output = check_output_file(asked.output, asked.overwrite, (".jsonl", ".csv"), [metrics_path])
    if asked.keep and pathlib.Path(asked.input).suffix.lower() not in (".csv", ".tsv", ".jsonl", ".ndjson"):
        raise ValueError(f"predict: `keep` needs an input with columns. Received: {asked.input}")
    options = _given(sequence_length=asked.sequence_length, top_k=asked.top_k, tagging_output=asked.tagging_output)
    options |= _stored(asked)
    columns = {name: getattr(asked, name) for name in ("text", "text_pair", "question", "context", "prompt")}
    reading = {
        "columns": _given(**columns),
        "trained": trained_options(asked.source),
        "keep": list(asked.keep),
        "batch_size": asked.batch_size,
        "overwrite": asked.overwrite,
        **_given(format=asked.format, choice_columns=asked.choices),
    }
    load = pipeline_loader(asked.source, asked.precision, **options)
    if asked.runner is None:
        texts = predict_file(load(), asked.input, output, **reading)
    else:
        beam = {"runner": asked.runner, "beam_flags": list(asked.beam_flags), "shared": asked.shared}
        texts = predict_file_with_beam(load, asked.input, output, **beam, **reading)
    result = {"settings": asked.settings(), "texts": texts, "seconds": round(time.monotonic() - start, 1)}
    write_json(metrics_path, result)
    return result


def _stored(asked) -> dict[str, Any]:
    """`window_pooling` and `null_threshold` as `kbert.build_pipeline` takes them, unless they are as stored."""
    values = {"window_pooling": asked.window_pooling, "null_threshold": asked.null_threshold}
    return {name: None if value == "off" else value for name, value in values.items() if value != "stored"}


@verb(_predict)
def predict(
    source: PathLike,
    input: PathLike,
    output: PathLike,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    question: str | None = None,
    context: str | None = None,
    prompt: str | None = None,
    choices: list[str] | None = None,
    format: str | None = None,
    keep: list[str] = (),
    sequence_length: Count | None = None,
    top_k: Count | None = None,
    tagging_output: Literal["tags", "entities"] | None = None,
    window_pooling: Literal["stored", "mean", "max", "off"] = "stored",
    null_threshold: Literal["stored", "off"] | float = "stored",
    batch_size: Count = 32,
    precision: Precision = "auto",
    runner: str | None = None,
    shared: PathLike | None = None,
    beam_flags: list[str] = (),
    overwrite: bool = False,
) -> dict[str, Any]:
    """Runs a trained model on every text of a file.

    A classifier returns label and probabilities, a regressor a score, a pre-trained model tokens for each [MASK], an
    encoder an embedding, multiple choice the number of the best choice, a tagger the entities or all words, a span
    extractor the answer, its position in the context, and the n best answers. `output` appears when it is complete; the
    same command resumes a killed run. The .metrics.json beside it has settings and time. With `runner`, Apache Beam
    runs several processes or machines, with the same result; what follows -- are Beam's own flags.

    Args:
        source: a model, or a SavedModel of ``kbert export``, whose settings are then those of the export.
        input: a .csv, .tsv or .jsonl file, read by columns; a SQuAD .json file has questions; any other file is read
            line by line (for pairs: two texts separated by a tab; for questions: question, tab, context).
        output: .jsonl, or .csv if an answer fits into a row of a table.
        text, text_pair, question, context, prompt, choices: the columns of the inputs; None: those that a fine-tuned
            model was trained on, if the file has them, or else the names of the inputs.
        format: of multiple-choice files: swag, dream or table; None: as in training.
        keep: columns to copy to the output.
        sequence_length: tokens of a row; None: the model's.
        top_k: how many tokens fill-mask proposes.
        tagging_output: "tags" of all words, or "entities" (the default).
        window_pooling, null_threshold: see `kbert.evaluate`.
        batch_size: texts per batch.
        precision: of the arithmetic.
        runner: an Apache Beam runner, such as DirectRunner.
        shared: with `runner`: a directory that all workers see.
        beam_flags: Beam's own flags, such as ``--direct_num_workers=4``.
        overwrite: replace `output`, and what a killed run with other settings left.

    Returns:
        dict: ``settings``, ``texts`` and ``seconds``.
    """


def fill_mask(
    source: PathLike, texts: list[str], *, top_k: Count = 5, sequence_length: Count | None = None
) -> list[dict[str, Any]]:
    """Asks a masked language model for the most probable tokens for each [MASK].

    Args:
        source: a kbert directory, the output of a pre-training, or any checkpoint with a masked-LM head.
        texts: texts with [MASK] in them.
        top_k: how many tokens are proposed.
        sequence_length: tokens of a text; None: the model's.

    Returns:
        The answers of `kbert.fill_mask`.
    """
    if without := [text for text in texts if MASK not in text]:
        raise ValueError(f"fill-mask: expected {MASK} in each text. Received: {without[0]!r}")
    return kbert.fill_mask(source, list(texts), top_k=top_k, sequence_length=sequence_length)


def report_filled(answers: list[dict[str, Any]]) -> None:
    """Prints each proposal with its probability."""
    for answer in answers:
        for mask in answer["masks"]:
            print(answer["text"])
            for proposal in mask:
                print(f"  {proposal['probability']:.4f}  {proposal['token']:<16}  {proposal['text']}")


@verb(lambda asked: _embed(asked))
def embed(
    source: PathLike,
    sentences: list[str] = (),
    *,
    input: PathLike | None = None,
    sts_b: PathLike | None = None,
    pooling: Literal["mean", "max", "cls", "pooler"] | None = None,
    normalize: bool | None = None,
    sequence_length: Count | None = None,
    batch_size: Count = 32,
    output: PathLike | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Embeds sentences, and compares the embeddings.

    Of sentences given here, the cosine similarity of each pair is shown; of `sts_b`, Spearman's correlation of it and
    human judgement. A merely pre-trained BERT does worse than a model for sentence similarity.

    Args:
        source: any encoder.
        sentences: what to embed.
        input: instead of sentences, a file with one on each line.
        sts_b: instead of sentences, the directory of GLUE, or of STS-B alone, whose dev set is scored.
        pooling: how a sentence's hidden states become one vector; None: the model's.
        normalize: scale the vectors to length 1; None: the model's.
        sequence_length: tokens of a sentence; None: those of the longest.
        batch_size: sentences per batch.
        output: directory for embeddings.npy (float32 [sentences, hidden]), settings.json and metrics.json.
        overwrite: replace what is in `output`.

    Returns:
        dict: the metrics; ``similarities``, (cosine, sentence, sentence) of each pair.
    """


def _embed(asked) -> dict[str, Any]:
    import numpy as np

    from kbert.files import atomic_file
    from kbert.tasks.encoder import similarity
    from kbert.tasks.text_files import iterate_lines
    from kbert.training.run_directory import open_run

    if sum([bool(asked.sentences), asked.input is not None, asked.sts_b is not None]) != 1:
        raise ValueError("embed: expected exactly one of sentences, `input` and `sts_b`")
    first, second, scores = similarity.read_sts_b(asked.sts_b) if asked.sts_b else ([], [], [])
    sentences = list(iterate_lines(asked.input)) if asked.input else [*asked.sentences, *first, *second]
    if not sentences:
        raise ValueError(f"{asked.input} holds no sentence")
    options = _given(sequence_length=asked.sequence_length, pooling=asked.pooling, normalize=asked.normalize)
    pipeline, run = similarity.embedding_pipeline(asked.source, sentences, **options), None
    if asked.output is not None:
        inputs = {"source": asked.source, "input": asked.input}
        inputs["sts_b"] = asked.sts_b and similarity.sts_b_file(asked.sts_b)
        settings = {name: value for name, value in asked.settings().items() if name not in ("output", "overwrite")}
        run = open_run(asked.output, settings, asked.overwrite, inputs=inputs, recipe="kbert embed")
    embeddings, metrics = similarity.embed_sentences(pipeline, sentences, asked.batch_size)
    pairs = itertools.combinations(range(len(asked.sentences)), 2)
    similarities = [
        (float(similarity.cosine(embeddings[i], embeddings[j])), sentences[i], sentences[j]) for i, j in pairs
    ]
    if asked.sts_b:
        metrics |= similarity.score_pairs(embeddings, scores) | {"pairs": len(first)}
    if run is not None:
        with atomic_file(run.path / "embeddings.npy", "wb") as written:
            np.save(written, embeddings)
        run.finish(metrics)
    return metrics | {"similarities": similarities, "output": None if run is None else str(run.path)}


def report_embedded(result: Mapping[str, Any]) -> None:
    """Prints similarities and scores."""
    for cosine, one, other in result["similarities"]:
        print(f"{cosine:6.3f}  {one}  |  {other}")
    if "spearman" in result:
        scores = f"Spearman {result['spearman']:.4f}, Pearson {result['pearson']:.4f}"
        print(f"STS-B dev, {result['pairs']} pairs: {scores}")
    if result["output"] is not None:
        print(f"Wrote {result['output']}/embeddings.npy.")


def features(
    source: PathLike,
    input: PathLike,
    output: PathLike,
    *,
    layers: list[int] = (-1, -2, -3, -4),
    align: Literal["tokens", "words"] = "tokens",
    batch_size: Count = 32,
    sequence_length: Count = 128,
    precision: Precision = "auto",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Writes a frozen encoder's hidden states for every token or word of a text, as features for other programs.

    Texts of any length are read in overlapping windows; a token's features are those of the window in which it has most
    context. A .jsonl `output` has a line for each text, as in the original's extract_features.py: {"linex_index": 0,
    "features": [{"token": "[CLS]", "layers": [{"index": -1, "values": [...]}, ...]}, ...]}. An .npz has the arrays
    features_0 (float32 [tokens, layers, hidden]) and tokens_0 for the first text, and so on.

    Args:
        source: a model of any task, whose encoder is used.
        input: a file with one text per line.
        output: .jsonl or .npz; it appears when it is complete.
        layers: hidden states to write: 0 the embeddings, -1 the last layer.
        align: what has features; a word has those of its first token.
        batch_size: texts and windows per batch.
        sequence_length: tokens of a window.
        precision: of the arithmetic.
        overwrite: replace `output`.

    Returns:
        dict: ``texts`` and ``output``.
    """
    from kbert.finetuning.features.extract import check_layers, text_features
    from kbert.finetuning.features.write_features import write_features
    from kbert.preprocessing.tagging_preprocessor import TaggingPreprocessor
    from kbert.tasks.text_files import iterate_lines
    from kbert.training.hardware import choose_hardware

    output = check_output_file(output, overwrite, (".jsonl", ".npz"))
    with choose_hardware("one", precision).scope():
        encoder = kbert.load_pretrained(source, task="encoder", outputs=("hidden_states",))
    length = min(sequence_length, encoder.config.max_sequence_length)
    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, length)
    numbers = check_layers(layers, encoder.config.num_layers)
    total = sum(1 for _ in iterate_lines(input))
    found = text_features(
        encoder, preprocessor, iterate_lines(input), numbers, align=align, batch_size=batch_size, total=total
    )
    return {"texts": write_features(output, found, list(layers)), "output": str(output)}


# Vocabularies and other files


@verb(lambda asked: _vocabulary(asked))
def vocabulary(
    corpus: list[str],
    output: PathLike,
    *,
    size: Count = 30522,
    lowercase: bool = True,
    characters: Count | None = None,
    format: Format = "auto",
    language: str = "en",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Learns a WordPiece vocabulary from text.

    Reserved tokens have BERT's ids: [PAD] 0, [unused0] to [unused98] 1 to 99, [UNK] 100, [CLS] 101, [SEP] 102, [MASK]
    103 (a vocabulary of fewer than 2,000 tokens has no unused ones). The same text gives the same vocabulary, whatever
    the order of its files.

    Args:
        corpus: text files, plain or compressed, or tar or zip archives of them; put patterns in quotes.
        output: the file to write, such as vocab.txt, with a token on each line; the .json beside it has settings and
            statistics.
        size: number of tokens, including the reserved ones.
        lowercase: lower-case the text and strip accents. A cased vocabulary needs --no-lowercase where it is used, too.
        characters: number of different characters; None: those that make up 99.95 % of the text, but at least 1,000 or
            a tenth of `size`, whichever is less.
        format: of the corpus; auto: detected from the content of each file.
        language: of the corpus, for splitting prose into sentences.
        overwrite: replace `output`.

    Returns:
        dict: ``tokens``, ``asked_for``, ``seconds``.
    """


def _vocabulary(asked) -> dict[str, Any]:
    from kbert.corpus.documents import read_documents
    from kbert.files import write_json
    from kbert.text.learn_vocabulary import learn_vocabulary
    from kbert.text.tokenizer import BertTokenizer
    from kbert.text.vocabulary import write_vocabulary

    start, output = time.monotonic(), pathlib.Path(asked.output)
    if output.suffix == ".json":
        raise ValueError(f"vocabulary: `output` is the vocabulary; a .json is written beside it. Received: {output}")
    output = check_output_file(output, asked.overwrite, (), [output.with_suffix(".json")])
    lines = itertools.chain.from_iterable(read_documents(asked.corpus, asked.format, asked.language))
    tokens = learn_vocabulary(lines, asked.size, lowercase=asked.lowercase, max_characters=asked.characters)
    write_vocabulary(output, tokens)
    metrics = {"tokens": len(tokens), "asked_for": asked.size, "seconds": round(time.monotonic() - start, 1)}
    tokenizer = BertTokenizer(tokens, lowercase=asked.lowercase).settings()
    write_json(output.with_suffix(".json"), {"settings": asked.settings(), "tokenizer": tokenizer, **metrics})
    return metrics


def report_vocabulary(metrics: Mapping[str, Any]) -> None:
    """Prints how many tokens were learned."""
    if metrics["tokens"] < metrics["asked_for"]:
        needed = f"more text is needed for {metrics['asked_for']:,}"
        print(f"The corpus yields only {metrics['tokens']:,} tokens; {needed}.")
    print(f"{metrics['tokens']:,} tokens in {metrics['seconds']:,} s")


def names(
    corpus: list[str],
    output: PathLike,
    *,
    min_count: Count = 5,
    max_names: Count = 20_000,
    format: Format = "auto",
    overwrite: bool = False,
) -> list[str]:
    """Finds names of several words in a cased text, which ``kbert pretrain --masking.names`` masks as a whole.

    A name consists of two or more consecutive words that are capitalised within a sentence, possibly with words such as
    "of" between them. For an uncased model, give the cased text from which its records were made.

    Args:
        corpus: text files; put patterns in quotes.
        output: the file to write, with a name on each line, the most frequent first.
        min_count: the minimum number of occurrences of a name.
        max_names: the maximum number of names.
        format: of the corpus.
        overwrite: replace `output`.

    Returns:
        The names.
    """
    from kbert.corpus.documents import read_documents
    from kbert.corpus.names import frequent_names, write_names

    output = check_output_file(output, overwrite)
    try:
        found = frequent_names(read_documents(corpus, format), min_count, max_names)
    except ValueError as error:
        raise ValueError(f"{' '.join(corpus)}: {error}") from None
    write_names(output, found)
    return found


def triviaqa(
    questions: PathLike, evidence: PathLike, output: PathLike, *, words: Count = 400, overwrite: bool = False
) -> dict[str, Any]:
    """Converts TriviaQA to SQuAD's format, for fine-tuning before SQuAD as in section 4.2 of the paper.

    Each document is cut to its first words, and is used only if these contain one of the answer's aliases.

    Args:
        questions: TriviaQA's JSON.
        evidence: directory of TriviaQA's documents.
        output: the .json to write.
        words: of each document to keep.
        overwrite: replace `output`.

    Returns:
        dict: ``questions`` and ``output``.
    """
    from kbert.files import atomic_file
    from kbert.tasks.span.triviaqa import triviaqa_questions

    output = check_output_file(output, overwrite)
    articles = list(triviaqa_questions(questions, evidence, words))
    if not articles:
        raise ValueError(f"no document contains an answer in its first {words} words")
    output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(output) as file:
        json.dump({"version": "1.1", "data": articles}, file, ensure_ascii=False)
    return {"questions": len(articles), "output": str(output)}


def serve_data(port: Count = 5050, host: str | None = None) -> None:
    """Makes the training batches of a pre-training on this machine, for a trainer on another.

    This is for a GPU machine whose CPU is too slow to draw pairs and masks; it is given ``--rows.data-service
    HOST:PORT``. Both machines must see the records under the same path. The batches are those that the training machine
    would make itself, in the same order, even after a restart of either machine.

    Args:
        port: of the dispatcher; its worker uses the next one.
        host: this machine's name, under which the training machine can reach it; None: its host name.
    """
    from kbert.pretraining.data_service import DataService

    service = DataService(port, host)
    print(f"Serving batches at {service.address}", flush=True)
    service.join()


# Serve


@verb(lambda asked: _export(asked))
def export(
    source: PathLike,
    output: PathLike,
    *,
    task: str | None = None,
    version: Count | None = None,
    sequence_length: Count | None = None,
    top_k: Count | None = None,
    window_pooling: Literal["stored", "mean", "max", "off"] = "stored",
    null_threshold: Literal["stored", "off"] | float = "stored",
    layers: list[int] | None = None,
    precision: Literal["float32", "bfloat16"] | None = None,
    frozen_weights: bool = False,
    max_request_bytes: Count = 2**20,
    max_request_tokens: Count = 2**17,
) -> pathlib.Path:
    """Exports a model for TensorFlow Serving: one SavedModel from raw strings to answers.

    The next version is written: saved_models/reviews/1, then 2, and so on. A server that watches the directory never
    sees an incomplete version. It holds the SavedModel with the signatures of its task, warm-up requests, batching
    parameters, and a model card with these settings and the metrics of the run. It is audited before it appears.

    Args:
        source: the model.
        output: directory of the model's versions, such as saved_models/NAME.
        task: the task to serve, such as encoder; None: the model's own.
        version: None: one more than the highest.
        sequence_length: tokens of a row; None: the model's.
        top_k: how many tokens fill-mask proposes.
        window_pooling, null_threshold: see `kbert.evaluate`.
        layers: hidden states in an encoder's signature `features`; 0: embeddings, -1: last layer; None: the last four.
        precision: of weights and computation; bfloat16 takes half the space and changes the third digit.
        frozen_weights: store weights as constants: short texts are faster on a CPU, but loading takes more time and
            memory.
        max_request_bytes: the maximum number of bytes of text in a request; larger requests are refused.
        max_request_tokens: the maximum number of tokens run for a request, rows or windows times sequence length.

    Returns:
        The path of the version.
    """


def _export(asked) -> pathlib.Path:
    model = kbert.load_pretrained(asked.source, task=asked.task)
    options = _given(sequence_length=asked.sequence_length, top_k=asked.top_k) | _stored(asked)
    pipeline = kbert.build_pipeline(model, **options)
    settings = {name: value for name, value in asked.settings().items() if name not in ("source", "output")}
    return kbert.export(
        pipeline,
        asked.output,
        asked.version,
        made_by={"recipe": "kbert export", **settings},
        frozen_weights=asked.frozen_weights,
        max_request_bytes=asked.max_request_bytes,
        max_request_tokens=asked.max_request_tokens,
        **_given(layers=asked.layers, precision=asked.precision),
    )


def report_export(path: pathlib.Path) -> None:
    """Prints what was written, and how to query it."""
    card = json.loads((path / "card.json").read_text("utf-8"))
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"Wrote {path} ({size / 1e6:.1f} MB).")
    for name, signature in card["signatures"].items():
        print(f"{name}: {', '.join(signature['inputs'])} -> {', '.join(signature['outputs'])}")
    inputs = card["signatures"]["serving_default"]["example"]["body"]["inputs"]
    columns = ", ".join(f"{name}=tf.constant({json.dumps(value)})" for name, value in inputs.items())
    mount = f"-p 8501:8501 -v {path.parent}:/models/{card['name']} -e MODEL_NAME={card['name']}"
    print(f"With Docker:\n    docker run --rm {mount} tensorflow/serving")
    print("In Python, without kbert:\n    import tensorflow as tf, tensorflow_text")
    print(f'    serve = tf.saved_model.load("{path}").signatures["serving_default"]\n    serve({columns})')


def audit(directories: list[str]) -> list:
    """Checks that a stock TensorFlow Serving can run a SavedModel, before it is deployed.

    The report lists every op with the servers that link it, the signatures, and every problem: ops that no stock server
    has, lookup tables, a first dimension that is not the batch, weights that are stored twice, warm-up requests that do
    not match the signatures. The exit status is 1 if there are problems. The model is read, not run.

    Args:
        directories: of versions, or of models, of which the highest version is read.

    Returns:
        The reports.
    """
    return [kbert.audit(directory) for directory in directories]


def report_audits(reports: list) -> None:
    """Prints the reports."""
    for report in reports:
        print("\n".join(report.lines()))


def audits_as_json(reports: list) -> list[dict[str, Any]]:
    """The reports as JSON."""
    return [
        {
            "path": str(report.path),
            "ops": report.ops,
            "servers": report.servers,
            "signatures": {
                name: {"kind": s.kind, "inputs": sorted(s.inputs), "outputs": sorted(s.outputs)}
                for name, s in report.signatures.items()
            },
            "problems": report.problems,
        }
        for report in reports
    ]


def query(
    model: str,
    texts: list[str] = (),
    *,
    pair: list[str] = (),
    question: str | None = None,
    context_file: PathLike | None = None,
    prompt: str | None = None,
    choices: list[str] = (),
    input: PathLike | None = None,
    batch_size: Count = 32,
    url: str = "http://localhost:8501",
    root_certificates: PathLike | None = None,
    client_certificate: list[str] | None = None,
    version: Count | None = None,
    label: str | None = None,
    signature: str = "serving_default",
    timeout: Positive = 10.0,
    tries: Count = 3,
) -> list[dict[str, Any]]:
    """Queries a model on a TensorFlow Serving server, and shows the curl line of the same request.

    Answers are printed as one JSON object per row, without the padding of the server's lists; the curl command is
    printed on standard error. The signatures classify and regress are sent tf.Examples, as TensorFlow Serving requires.

    Args:
        model: the model's name on the server.
        texts: single texts.
        pair: instead, two texts.
        question, context_file: instead, a question, and a text file with its context.
        prompt, choices: instead, a prompt, and the choices of which one is chosen.
        input: instead, a file with a JSON object per line, whose keys are the columns of the signature.
        batch_size: rows of `input` per request.
        url: http://host:8501 or grpc://host:8500; with TLS https:// or grpcs://.
        root_certificates: PEM file of the certificate authorities to trust; None: the public ones.
        client_certificate: PEM files of certificate and key, which authenticate the client.
        version: None: the server's choice.
        label: a version label, such as stable, instead of `version`.
        signature: of the model.
        timeout: seconds for a request.
        tries: attempts if the server cannot be reached or is busy.

    Returns:
        The answers.
    """
    from kbert.serving.ask import ask, read_json_rows
    from kbert.serving.client import ServingClient

    ways = [texts, pair, question is not None, prompt is not None, input]
    if sum(map(bool, ways)) != 1:
        raise ValueError("query: expected exactly one of texts, `pair`, `question`, `prompt` and `input`")
    if (question is None) != (context_file is None) or (prompt is None) != (not choices):
        raise ValueError("query: `question` goes with `context_file`, and `prompt` with `choices`")
    if pair and len(pair) != 2:
        raise ValueError(f"query: `pair` must be two texts. Received: {len(pair)}")
    if input:
        rows = read_json_rows(pathlib.Path(input))
    elif question is not None:
        rows = [{"question": question, "context": pathlib.Path(context_file).read_text("utf-8", errors="replace")}]
    elif prompt is not None:
        rows = [{"prompt": prompt, "choices": list(choices)}]
    else:
        rows = [{"text": pair[0], "text_pair": pair[1]}] if pair else [{"text": text} for text in texts]
    options = _given(version=version, label=label, root_certificates=root_certificates)
    options |= _given(client_certificate=client_certificate and tuple(client_certificate))
    client = ServingClient(url, model, timeout=timeout, tries=tries, **options)
    answers = []
    for answer in ask(client, rows, signature, batch_size):
        print(json.dumps(answer, ensure_ascii=False), flush=True)
        answers.append(answer)
    return answers


# Look inside, convert


def convert(
    source: PathLike,
    output: PathLike,
    *,
    format: str = "kbert",
    task: str | None = None,
    pooler: bool = True,
    vocabulary: PathLike | None = None,
    lowercase: bool | None = None,
    storage_dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    report: PathLike | None = None,
    overwrite: bool = False,
) -> list[str]:
    """Converts a BERT checkpoint from one library's format to another's, including heads, and compares the outputs.

    A model that a format cannot store is an error that states the reason. Weights are never changed, except by
    `storage_dtype`.

    Args:
        source: a kbert directory or the output of a run; a Hugging Face directory; the directory or prefix of Google's
            TensorFlow checkpoint; a KerasHub preset; or a name on the Hugging Face hub. The format is recognised.
        output: directory to write, which must be new or empty.
        format: to write: kbert, huggingface, google or kerashub.
        task: of the model to write; None: that of the checkpoint.
        pooler: whether to keep a pooler that the task does not use.
        vocabulary: a vocab.txt, for a checkpoint that has none or a wrong one.
        lowercase: whether the tokenizer lower-cases; None: as stored in the checkpoint.
        storage_dtype: with the format kbert: type of the weights on disk; they are float32 when loaded.
        report: a JSON file to write, with every variable's name in both formats, and the largest differences between
            kbert's outputs and those of the other library (if it is installed), for each layer and head, on random
            batches with padding.
        overwrite: replace what an earlier conversion wrote to `output`.

    Returns:
        What was written, in lines.
    """
    from kbert.files import write_json
    from kbert.weights.diagnostics.parity import conversion_report

    overrides = _given(lowercase=lowercase) | ({} if pooler else {"pooler": False})
    model = kbert.load_pretrained(source, task, vocabulary=vocabulary, **overrides)
    if new := [row.variable for row in model.pretrained.report.newly_initialised]:
        raise ValueError(f"{source} has no weights for {new}, and a conversion adds none: choose another `task`")
    kbert.save_pretrained(model, output, format=format, overwrite=overwrite, storage_dtype=storage_dtype)
    lines = [f"Wrote {output}: a {model.task} model in the format {format}."]
    if report is not None:
        report = pathlib.Path(report)
        content, compared = conversion_report(model, output)
        report.parent.mkdir(parents=True, exist_ok=True)
        write_json(report, content)
        lines += [*compared, f"Wrote {report}."]
    return lines


def inspect(
    source: PathLike,
    *,
    texts: list[str] = (),
    pair: list[str] = (),
    data: PathLike | None = None,
    dev: PathLike | None = None,
    columns: dict[str, int] = {"tags": -1},  # noqa: B006: read only
    text_column: str = "text",
    label_column: str = "label",
    max_words: Count = 5000,
    compare: PathLike | None = None,
    corpus: list[str] | None = None,
    records: PathLike | None = None,
    output: PathLike | None = None,
    log_dir: PathLike | None = None,
    sequence_length: Count | None = None,
    seed: Natural = 0,
    precision: Precision = "auto",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Looks inside a model: attention, head statistics, layer probes, embeddings, and which tokens decided an answer.

    Args:
        source: the model, of any task.
        texts: texts to look at; none: two sentences.
        pair: two texts to look at together: a question and its context, or a pair.
        data: labelled words or texts for linear probes of each layer: a table with the columns `text_column` and
            `label_column`, or words in columns as in CoNLL's files.
        dev: the same to score the probes on; None: a fifth of `data`.
        columns: names and numbers of the columns of labels, from 0 or from the end: tags are entities, heads are
            syntactic heads, and any other name is a property of words.
        text_column, label_column: of a table.
        max_words: the maximum number of words or texts to read from a file.
        compare: another model, such as the one before fine-tuning, to whose layers those of this one are compared.
        corpus, records: text files, or records, whose most frequent tokens the projector shows.
        output: directory for report.html, figures.json and pictures/.
        log_dir: directory of TensorBoard logs, to which the run "inspection" is added, with the projector.
        sequence_length: tokens of a text.
        seed: determines the labels of the control tasks.
        precision: of the arithmetic.
        overwrite: replace an inspection in `output`.

    Returns:
        dict: ``inspection``, the result of `kbert.inspect`; ``output``, ``log_dir``.
    """
    from kbert.pretraining.unigrams import token_counts
    from kbert.tasks.labelled_columns import read_labelled_columns
    from kbert.training.hardware import choose_hardware

    if output is None and log_dir is None:
        raise ValueError("inspect: expected `log_dir`, `output` or both. Received: neither")
    if pair and len(pair) != 2:
        raise ValueError(f"inspect: `pair` must be two texts. Received: {len(pair)}")
    rows = [[text] for text in texts] + ([list(pair)] if pair else [])
    named = {"text": text_column, "label": label_column}
    probes = [path and read_labelled_columns(pathlib.Path(path), dict(columns), **named) for path in (data, dev)]
    with choose_hardware("one", precision).scope():
        model = kbert.load_pretrained(source)
        counted = records or corpus
        inspection = kbert.inspect(
            model,
            rows or None,
            probes[0],
            dev=probes[1],
            counts=token_counts(counted, model.pretrained.tokenizer) if counted else None,
            directory=output,
            name=str(source),
            overwrite=overwrite,
            max_words=max_words,
            seed=seed,
            **_given(log_dir=log_dir, sequence_length=sequence_length, compare=compare),
        )
    return {"inspection": inspection, "output": output, "log_dir": log_dir}


def report_inspection(result: Mapping[str, Any]) -> None:
    """Prints the best layer of each probe, and where to look."""
    for name, probes in result["inspection"].probes.items():
        best = probes.best_layer
        print(f"{name}: {probes.accuracy[best]:.1%} at layer {best}, selectivity {probes.selectivity[best]:.1%}")
    if result["output"] is not None:
        print(f"Wrote {result['output']}/report.html.")
    if result["log_dir"] is not None:
        print(f"To view it, run: tensorboard --logdir {result['log_dir']}")


def playground(
    models: list[str] = (), *, vocabulary: PathLike | None = None, port: Natural = 6007, host: str = "127.0.0.1"
) -> None:
    """Serves the playground: BERT's masking, next sentences and input, attention and answers of models, in a browser.

    Args:
        models: to try.
        vocabulary: a vocab.txt for the views that need no model; None: one learned from Python's documentation.
        port: 0: any free one.
        host: the address to serve; whoever can reach it can query the models. The default is only this machine.
    """
    from kbert.inspection.playground import PlaygroundApp, PlaygroundServer

    app = PlaygroundApp(list(models), vocabulary=vocabulary, host=host)
    app.api.models.check()
    server = PlaygroundServer(app, host, port)
    print(f"The playground is at {server.address} until you press Ctrl-C.", flush=True)
    server.serve()


# The table

GROUPS: dict[str, dict[str, Command]] = {
    "pre-train": {
        "vocabulary": Command(
            verb=vocabulary,
            positional=("corpus",),
            report=report_vocabulary,
            as_json=dict,
            epilog="kbert vocabulary 'wiki/*.gz' --output vocab.txt",
        ),
        "names": Command(
            verb=names,
            positional=("corpus",),
            report=lambda found: print(f"{len(found):,} names, such as {', '.join(found[:5])}"),
            epilog="kbert names 'wiki/*.gz' --output names.txt",
        ),
        "serve-data": Command(verb=serve_data),
    },
    "fine-tune": {
        "finetune": Command(
            verb=finetune,
            tasks=_tasks,
            report=report_finetuned,
            as_json=lambda run: run.metrics,
            resumes=True,
            epilog="""
            kbert finetune classification --source google-bert/bert-base-uncased --train reviews.csv --label stars \\
                --dev 0.1 --output runs/reviews
            kbert finetune glue --name SST-2 --source saved_models/kbert-tiny --train glue --dev glue --output runs/sst2
            kbert finetune span --source runs/triviaqa --train train-v2.0.json --dev dev-v2.0.json --output runs/squad
            """,
        ),
        "glue": Command(
            verb=finetune_glue,
            report=report_glue,
            as_json=dict,
            resumes=True,
            epilog="""
            kbert glue --source saved_models/kbert-tiny --directory glue --output runs/glue --submission \\
                --learning-rates 1e-4 3e-4 1e-3 --seeds 0 1 2
            """,
        ),
        "glue-submission": Command(verb=glue_submission, report=print),
        "tag-features": Command(
            verb=tag_features,
            report=report_taggers,
            as_json=dict,
            resumes=True,
            epilog="kbert tag-features --source saved_models/kbert-tiny --train eng.train --output runs/features",
        ),
        "triviaqa": Command(
            verb=triviaqa,
            report=lambda done: print(
                f"Wrote {done['output']}: {done['questions']:,} questions, each with a document that has the answer."
            ),
        ),
    },
    "use": {
        "evaluate": Command(
            verb=evaluate,
            positional=("pipeline",),
            tasks=_tasks,
            partial_task=True,
            report=report_scores,
            as_json=dict,
            epilog="""
            kbert evaluate runs/reviews --examples test.csv
            kbert evaluate classification runs/reviews --examples others.csv --text review --label stars
            kbert evaluate glue runs/sst2 --name SST-2 --examples glue
            kbert evaluate runs/squad-0 runs/squad-1 --examples dev-v2.0.json
            """,
        ),
        "predict": Command(
            verb=predict,
            report=lambda done: print(f"{done['texts']:,} texts in {done['seconds']:,.1f} s"),
            as_json=dict,
            resumes=True,
            epilog="kbert predict --source runs/reviews --input texts.csv --output answers.jsonl",
        ),
        "fill-mask": Command(
            verb=fill_mask,
            positional=("texts",),
            report=report_filled,
            as_json=list,
            epilog='kbert fill-mask "Paris is the [MASK] of France." --source saved_models/kbert-mini',
        ),
        "embed": Command(
            verb=embed,
            positional=("sentences",),
            report=report_embedded,
            as_json=dict,
            epilog='kbert embed "A man plays." "Somebody makes music." --source all-MiniLM-L6-v2',
        ),
        "features": Command(
            verb=features, report=lambda done: print(f"Wrote {done['output']}: {done['texts']:,} texts.")
        ),
    },
    "serve": {
        "export": Command(
            verb=export,
            report=report_export,
            epilog="kbert export --source runs/reviews --output saved_models/reviews",
        ),
        "audit": Command(
            verb=audit,
            positional=("directories",),
            report=report_audits,
            as_json=audits_as_json,
            failed=lambda reports: any(report.problems for report in reports),
        ),
        "query": Command(
            verb=query,
            positional=("texts",),
            epilog='kbert query "A charming journey." "A mess." --url http://localhost:8501 --model reviews',
        ),
    },
    "look inside": {
        "convert": Command(
            verb=convert,
            report=lambda lines: print("\n".join(lines)),
            epilog="kbert convert --source uncased_L-12_H-768_A-12 --format huggingface --output bert-base",
        ),
        "inspect": Command(verb=inspect, report=report_inspection),
        "playground": Command(verb=playground, positional=("models",)),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def help_text() -> str:
    """What ``kbert --help`` shows: the commands with their first sentences."""
    lines = ["usage: kbert COMMAND [--help] …", "", "BERT as a Keras 3 application: pre-train, fine-tune, serve."]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:<20}{command.summary.split('. ')[0].rstrip('.')}" for name, command in commands.items()]
    return "\n".join([*lines, "", "kbert COMMAND --help shows what a command takes."])


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command of the command line."""
    argv = list(sys.argv[1:] if argv is None else argv)
    word = argv[0] if argv else "--help"
    if word in ("--help", "-h"):
        print(help_text())
    elif word == "--version":
        print(kbert.__version__)
    elif word not in COMMANDS:
        sys.exit(f"error: unknown command {word!r}. {suggest(word, COMMANDS, 'kbert --help lists them')}")
    else:
        run_command(COMMANDS[word], argv[1:], f"kbert {word}")
