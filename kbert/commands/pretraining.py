"""Commands from text to a pre-trained model: vocabulary, records, pre-training, its scores."""

import itertools
import os
import pathlib
import time
from collections.abc import Mapping
from typing import Any

from kbert.aliases import PathLike
from kbert.checks import check_output_file
from kbert.cli import Command
from kbert.options import CorpusFormat, Count, checked, record
from kbert.pretraining.run.evaluate_pretraining import evaluate_pretraining
from kbert.pretraining.run.options import PRESETS
from kbert.pretraining.run.prepare import prepare_records, write_batches
from kbert.pretraining.run.pretrain import PretrainingRun, pretrain


@checked
def vocabulary(
    corpus: list[str],
    output: PathLike,
    *,
    size: Count = 30522,
    lowercase: bool = True,
    characters: Count | None = None,
    format: CorpusFormat = "auto",
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
    from kbert.files import write_json
    from kbert.text.learn_vocabulary import learn_vocabulary
    from kbert.text.tokenizer import BertTokenizer
    from kbert.text.vocabulary import write_vocabulary

    settings = record(vocabulary, locals())
    start, output = time.monotonic(), pathlib.Path(output)
    if output.suffix == ".json":
        raise ValueError(f"vocabulary: `output` is the vocabulary; a .json is written beside it. Received: {output}")
    about = output.with_suffix(".json")
    output = check_output_file(output, overwrite, (), [about])
    lines = itertools.chain.from_iterable(_documents(corpus, (output, about), format, language))
    tokens = learn_vocabulary(lines, size, lowercase=lowercase, max_characters=characters)
    write_vocabulary(output, tokens)
    metrics = {"tokens": len(tokens), "asked_for": size, "seconds": round(time.monotonic() - start, 1)}
    tokenizer = BertTokenizer(tokens, lowercase=lowercase).settings()
    write_json(about, {"settings": settings, "tokenizer": tokenizer, **metrics})
    return metrics


def _documents(corpus, written, format, language="en"):
    """The documents of a corpus that has none of the files to be written."""
    from kbert.corpus.corpus_files import find_files
    from kbert.corpus.documents import iterate_documents, texts_as_documents

    documents = texts_as_documents(corpus)
    if documents is not corpus:
        return iter(documents)
    files = find_files(corpus)
    replaced = set(map(os.path.realpath, written))
    if read := [file for file in files if os.path.realpath(file) in replaced]:
        raise ValueError(f"Expected an `output` that is no file of the corpus. Received: {read[0]}")
    return iterate_documents(files, format, language)


def report_vocabulary(metrics: Mapping[str, Any]) -> None:
    if metrics["tokens"] < metrics["asked_for"]:
        needed = f"more text is needed for {metrics['asked_for']:,}"
        print(f"The corpus yields only {metrics['tokens']:,} tokens; {needed}.")
    print(f"{metrics['tokens']:,} tokens in {metrics['seconds']:,} s")


def report_pretrained(run: PretrainingRun) -> None:
    """Prints the scores beside those of token frequencies, and where the model is; of a dry run the estimate."""
    metrics = run.metrics
    if "mlm_accuracy" not in metrics:
        print(_describe_estimate(metrics))
    elif run.path is None:
        print(_describe_scores(metrics))
    else:
        print(
            f"\n{_describe_scores(metrics)}\n{metrics['minutes']:.1f} minutes\n"
            f"The model is in {run.path / 'model'}, the curves in {run.path / 'logs'}\n"
            f"Next: kbert finetune classification --source {run.path} --train my.csv …"
        )


def _describe_estimate(estimate):
    """What a dry run found."""
    from kbert.training.dry_run import format_estimate  # not above: it loads Keras

    if "sequences_per_epoch" not in estimate:  # of stored batches it is not known
        return format_estimate(estimate)
    count = f"{estimate['sequences_per_epoch']:,}" + ("" if estimate["sequences_are_all"] else " or more")
    return f"{count} sequences in an epoch\n{format_estimate(estimate)}"


def _describe_scores(metrics):
    """Loss and accuracy of masked tokens, and of next sentences where the run had them."""
    loss = f"loss {metrics['mlm_cross_entropy']:.3f}"
    accuracy = f"masked-LM accuracy {metrics['mlm_accuracy']:.1%}"
    pairs = f"next-sentence accuracy {metrics['nsp_accuracy']:.1%}" if "nsp_accuracy" in metrics else None
    if unigram := metrics.get("unigram"):  # of stored batches it is not known
        loss += f" (token frequencies alone: {unigram['cross_entropy']:.3f})"
        accuracy += f" (always the most frequent: {unigram['accuracy']:.1%})"
        pairs = pairs and f"{pairs} (always the more frequent label: {unigram['nsp_accuracy']:.1%})"
    return f"held-out masked tokens: {loss}, {accuracy}" + (f"\nheld-out pairs: {pairs}" if pairs else "")


def report_records(metrics: Mapping[str, Any]) -> None:
    from kbert.pretraining.dataset_statistics import format_report

    counts = {name: count for name, count in metrics.items() if name not in ("data", "sequence_length")}
    print("\n" + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items()))
    print(f"Pre-training examples at sequence length {metrics['sequence_length']}:")
    print(format_report(metrics["data"]))


def report_batches(manifest: Mapping[str, Any]) -> None:
    size = sum(file["bytes"] for file in manifest["files"])
    print(f"{manifest['steps']:,} batches, {size / 1e6:,.1f} MB")


def report_pretraining_scores(scores: Mapping[str, Any]) -> None:
    """Prints the scores beside those of token frequencies."""

    def percent(name):
        return f"{100 * scores[name]:.1f} %"

    print(
        f"masked-LM accuracy      {percent('mlm_accuracy')} of {scores['masks']:,} (standard error "
        f"{percent('mlm_standard_error')}; the most frequent token: {percent('unigram_accuracy')})"
    )
    print(
        f"masked-LM loss          {scores['mlm_cross_entropy']:.3f} nats, perplexity {scores['mlm_perplexity']:.1f} "
        f"(token frequencies: {scores['unigram_cross_entropy']:.3f} nats)"
    )
    if "pairs" in scores:
        print(
            f"next-sentence accuracy  {percent('nsp_accuracy')} of {scores['pairs']:,} (standard error "
            f"{percent('nsp_standard_error')}; the more frequent answer: {percent('most_frequent_nsp')})"
        )


COMMANDS = {
    "vocabulary": Command(
        verb=vocabulary,
        positional=("corpus",),
        report=report_vocabulary,
        as_json=dict,
        epilog="kbert vocabulary 'wiki/*.gz' --output vocab.txt",
    ),
    "records": Command(
        verb=prepare_records,
        positional=("corpus",),
        report=report_records,
        as_json=lambda metrics: {name: value for name, value in metrics.items() if name != "sequence_length"},
        resumes=True,
        epilog="""
        kbert records 'wiki/*.gz' --vocabulary vocab.txt --output records
        kbert records 'wiki/*.gz' --vocabulary vocab.txt --output records --runner DirectRunner \\
            -- --direct_num_workers=4 --direct_running_mode=multi_processing
        """,
    ),
    "pretrain": Command(
        verb=pretrain,
        positional=("corpus_or_records",),
        presets=PRESETS,
        report=report_pretrained,
        as_json=lambda run: run.metrics,
        resumes=True,
        epilog="""
        kbert pretrain records --size tiny --config small-budget --steps 40000 --output runs/tiny
        kbert pretrain 'corpus/*.txt' --vocabulary vocab.txt --size base --config paper --steps 1000000 \\
            --output runs/paper
        KERAS_BACKEND=jax kbert pretrain batches --size base --output runs/base
        """,
    ),
    "batches": Command(verb=write_batches, positional=("records",), report=report_batches, as_json=dict),
    "evaluate-pretraining": Command(
        verb=evaluate_pretraining,
        positional=("corpus_or_records",),
        report=report_pretraining_scores,
        as_json=dict,
        epilog="kbert evaluate-pretraining records --source saved_models/kbert-tiny",
    ),
}
