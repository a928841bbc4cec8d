"""Commands that use a model: scores, predictions, filled masks, embeddings, features."""

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import kbert
from kbert.aliases import PathLike
from kbert.checks import check_output_file
from kbert.cli import Command
from kbert.commands.finetuning import report_scores, task_classes
from kbert.finetuning.evaluate import evaluate, not_as_stored
from kbert.options import NOT_RECORDED, Count, Precision, checked, record


def drop_none(**options) -> dict[str, Any]:
    """Drops the options that are None."""
    return {name: value for name, value in options.items() if value is not None}


@checked
def predict(
    source: PathLike,
    input: PathLike,
    output: PathLike,
    *,
    text: str | list[str] | None = None,
    text_pair: str | None = None,
    question: str | None = None,
    context: str | None = None,
    prompt: str | None = None,
    choices: list[str] | None = None,
    format: Literal["table", "swag", "dream"] | None = None,
    keep: Sequence[str] = (),
    sequence_length: Count | None = None,
    pair: bool | None = None,
    top_k: Count | None = None,
    tagging_output: Literal["tags", "entities"] | None = None,
    window_pooling: Literal["stored", "mean", "max", "off"] = "stored",
    null_threshold: Literal["stored", "off"] | float = "stored",
    batch_size: Count = 32,
    precision: Precision = "auto",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Runs a trained model on every text of a file.

    A classifier returns label and probabilities, a regressor a score, a pre-trained model tokens for each [MASK], an
    encoder an embedding, multiple choice the number of the best choice, a tagger the entities or all words, a span
    extractor the answer, its position in the context, and the n best answers. `output` appears when it is complete; the
    same command resumes a killed run. The .metrics.json beside it has settings and time.

    Args:
        source: a model, or a SavedModel of ``kbert export``, whose settings are then those of the export.
        input: a .csv, .tsv, .jsonl, .parquet, .arrow or .feather file, read by columns; a SQuAD .json file has
            questions; any other file is read line by line (for pairs: two texts separated by a tab; for questions:
            question, tab, context).
        output: .jsonl, or .csv if an answer fits into a row of a table.
        text, text_pair, question, context, prompt, choices: Input columns. Several `text` columns are joined as in
            training. Defaults to the columns that the model was trained on if the file has them, else to the names of
            the inputs.
        format: of multiple-choice files: swag, dream or table; None: as in training.
        keep: columns to copy to the output.
        sequence_length: tokens of a row; None: the model's.
        pair: Whether texts come in pairs. Defaults to the model's own setting.
        top_k: how many tokens fill-mask proposes.
        tagging_output: "tags" of all words, or "entities" (the default).
        window_pooling, null_threshold: see `kbert.evaluate`.
        batch_size: texts per batch.
        precision: of the arithmetic.
        overwrite: replace `output`, and what a killed run with other settings left.

    Returns:
        dict: ``settings``, ``texts`` and ``seconds``.
    """
    settings = record(predict, locals())
    from kbert.finetuning.predict_file import check_output, predict_file
    from kbert.serving.exported_pipeline import open_pipeline, trained_options

    start = time.monotonic()
    check_output(output, overwrite)
    columns = {"text": text, "text_pair": text_pair, "question": question, "context": context}
    columns |= {"prompt": prompt, "choices": choices}
    options = {"sequence_length": sequence_length, "pair": pair, "top_k": top_k, "tagging_output": tagging_output}
    options = drop_none(**options) | not_as_stored(window_pooling=window_pooling, null_threshold=null_threshold)
    texts = predict_file(
        open_pipeline(source, precision, **options),
        input,
        output,
        columns=drop_none(**columns),
        format=format,
        keep=keep,
        trained=trained_options(source),
        batch_size=batch_size,
        made_by=settings,
        overwrite=overwrite,
    )
    return {"settings": settings, "texts": texts, "seconds": round(time.monotonic() - start, 1)}


@checked
def fill_mask(
    source: PathLike, texts: list[str], *, top_k: Count = 5, sequence_length: Count | None = None
) -> list[dict[str, Any]]:
    """Asks a masked language model for the most probable tokens for each [MASK].

    Args:
        source: a model directory, the output of a pre-training, or any checkpoint with a masked-LM head.
        texts: texts with [MASK] in them.
        top_k: how many tokens are proposed.
        sequence_length: tokens of a text; None: the model's.

    Returns:
        The answers of `kbert.fill_mask`.
    """
    return kbert.fill_mask(source, texts, top_k=top_k, sequence_length=sequence_length)


def report_filled(answers: list[dict[str, Any]]) -> None:
    for answer in answers:
        for mask in answer["masks"]:
            print(answer["text"])
            for proposal in mask:
                print(f"  {proposal['probability']:.4f}  {proposal['token']:<16}  {proposal['text']}")


@checked
def embed(
    source: PathLike,
    sentences: Sequence[str] = (),
    *,
    input: PathLike | None = None,
    sts_b: PathLike | None = None,
    pooling: Literal["mean", "max", "cls", "pooler"] | None = None,
    normalize: bool | None = None,
    sequence_length: Count | None = None,
    batch_size: Count = 32,
    output: Annotated[PathLike | None, NOT_RECORDED] = None,
    overwrite: Annotated[bool, NOT_RECORDED] = False,
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
    import numpy as np

    from kbert.files import atomic_file
    from kbert.tasks import encoder
    from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS
    from kbert.tasks.table import iterate_lines
    from kbert.training.run_directory import open_run

    settings = record(embed, locals())
    if sum([bool(sentences), input is not None, sts_b is not None]) != 1:
        raise ValueError("embed: expected exactly one of sentences, `input` and `sts_b`")
    first, second, scores = encoder.read_sts_b(sts_b) if sts_b else ([], [], [])
    texts = list(iterate_lines(input)) if input else [*sentences, *first, *second]
    if not texts:
        raise ValueError(f"embed: {input} has no sentences")
    options = drop_none(sequence_length=sequence_length, pooling=pooling, normalize=normalize)
    pipeline = encoder.embedding_pipeline(source, texts, **options)
    run = None
    if output is not None:
        inputs = {"source": source, "input": input}
        inputs["sts_b"] = sts_b and GLUE_TASKS["STS-B"].path(sts_b, "dev")
        run = open_run(output, settings, overwrite, inputs=inputs, recipe="kbert embed")
    embeddings, metrics = encoder.embed_sentences(pipeline, texts, batch_size)
    pairs = itertools.combinations(range(len(sentences)), 2)
    similarities = [(float(encoder.cosine(embeddings[i], embeddings[j])), texts[i], texts[j]) for i, j in pairs]
    if sts_b:
        metrics |= encoder.score_pairs(embeddings, scores) | {"pairs": len(first)}
    if run is not None:
        with atomic_file(run.path / "embeddings.npy", "wb") as written:
            np.save(written, embeddings)
        run.finish(metrics)
    return metrics | {"similarities": similarities, "output": None if run is None else str(run.path)}


def report_embedded(result: Mapping[str, Any]) -> None:
    for cosine, text, neighbour in result["similarities"]:
        print(f"{cosine:6.3f}  {text}  |  {neighbour}")
    if "spearman" in result:
        scores = f"Spearman {result['spearman']:.4f}, Pearson {result['pearson']:.4f}"
        print(f"STS-B dev, {result['pairs']} pairs: {scores}")
    if result["output"] is not None:
        print(f"Wrote {result['output']}/embeddings.npy.")


@checked
def features(
    source: PathLike,
    input: PathLike,
    output: PathLike,
    *,
    layers: Sequence[int] = (-1, -2, -3, -4),
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
    from kbert.finetuning.features import layer_numbers, text_features, write_features
    from kbert.preprocessing.window_preprocessors import TaggingPreprocessor
    from kbert.tasks.table import iterate_lines
    from kbert.training.hardware import choose_hardware

    output = check_output_file(output, overwrite, (".jsonl", ".npz"))
    with choose_hardware("one", precision).scope():
        encoder = kbert.load_pretrained(source, task="encoder", outputs=("hidden_states",))
    length = min(sequence_length, encoder.config.max_sequence_length)
    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, length)
    numbers = layer_numbers(layers, encoder.config.num_layers)
    total = sum(1 for _ in iterate_lines(input))
    vectors = text_features(
        encoder, preprocessor, iterate_lines(input), numbers, align=align, batch_size=batch_size, total=total
    )
    return {"texts": write_features(output, vectors, list(layers)), "output": str(output)}


COMMANDS = {
    "evaluate": Command(
        verb=evaluate,
        positional=("pipeline",),
        tasks=task_classes,
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
    "features": Command(verb=features, report=lambda done: print(f"Wrote {done['output']}: {done['texts']:,} texts.")),
}
