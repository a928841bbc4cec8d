"""Train embeddings of sentences on plain text with Keras' compile and fit, and score them on STS-B.

    python recipes/embeddings.py --corpus 'wiki/*.gz' --source saved_models/kbert-mini --sts-b STS-B --output runs/same

No labels are needed: a sentence belongs to itself, embedded twice with different dropout (SimCSE), or to the sentence
after it, or a title to the first sentence of its article (of files that WikiExtractor wrote). Each has to find its own
among all others of the batch. A killed run goes on exactly when the same command is given again.
``kbert finetune similarity`` trains on tables of pairs, triplets and scored pairs.
"""

import itertools
import pathlib
import re
from typing import Literal

import keras

import kbert
from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.corpus import find_files, read_documents
from kbert.corpus.corpus_files import open_texts
from kbert.optim import WarmupLinearDecay
from kbert.options import Count, FractionBelowOne, Natural, Positive, record
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS
from kbert.training import ExactResume


def pairs_of(corpus: str, kind: str, count: int) -> list:
    """The first `count` pairs of a corpus, of sentences with at least 5 words; of "same" the sentences alone."""
    if kind == "titles":
        files = itertools.chain.from_iterable(map(open_texts, find_files(corpus)))
        texts = ("\n".join(map(str.strip, lines)) for _, lines in files)
        articles = (re.findall(r'<doc [^>]*title="([^"]*)">\n[^\n]*\n\n([^\n]+)', text) for text in texts)
        pairs = ((title, text.split(". ")[0]) for title, text in itertools.chain.from_iterable(articles))
    else:
        documents = read_documents(corpus)
        long = ([text for text in document if len(text.split()) >= 5] for document in documents)
        pairs = (
            pair for sentences in long for pair in (sentences if kind == "same" else itertools.pairwise(sentences))
        )
    return list(itertools.islice(pairs, count))


def train_embeddings(
    corpus: str,
    source: PathLike,
    output: PathLike,
    *,
    sts_b: PathLike | None = None,
    pairs: Literal["same", "neighbours", "titles"] = "same",
    examples: Count = 20_000,
    batch_size: Count = 64,
    sequence_length: Count = 64,
    learning_rate: Positive = 3e-5,
    dropout: FractionBelowOne = 0.1,
    temperature: Positive = 0.05,
    seed: Natural = 0,
) -> dict:
    """Trains on pairs from a corpus, each of them once.

    Args:
        corpus: path or pattern of text files.
        source: the pre-trained model.
        output: directory for the checkpoints and the model.
        sts_b: the directory of GLUE, or of STS-B alone, to score the embeddings on its dev set before and after.
        pairs: what belongs together: a sentence and itself, and the next one, or a title and the first sentence.
        examples: how many pairs.
        batch_size: pairs per update; each is compared with all others.
        sequence_length: tokens of a sentence.
        learning_rate: the peak.
        dropout: of the encoder in training; "same" needs it, as a sentence would equal itself.
        temperature: what similarities are divided by.
        seed: determines dropout and the order of the pairs.
    """
    settings = record(train_embeddings, locals())
    files = {"corpus": find_files(corpus), "source": source}
    keras.utils.set_random_seed(seed)
    task = kbert.tasks.Similarity(text_pair=None if pairs == "same" else "pair", temperature=temperature)
    train = task.read(pairs_of(corpus, pairs, examples))
    scored = kbert.tasks.Similarity(text="sentence1", text_pair="sentence2", label="score", score_range=(0, 5))
    dev = None if sts_b is None else scored.read(GLUE_TASKS["STS-B"].path(sts_b, "dev"))

    # The model: the pre-trained encoder, whose hidden states are averaged to one vector of length 1.
    rates = {"hidden_dropout": dropout, "attention_dropout": dropout}
    model = kbert.load_pretrained(source, task="similarity", temperature=temperature, **rates)
    pipeline = kbert.build_pipeline(model, sequence_length=sequence_length)

    def score() -> dict[str, float]:
        return {} if dev is None else kbert.evaluate(pipeline, scored, dev)

    # The data: strings that belong together → batches of token ids, in the graph.
    steps_per_epoch = max(1, len(train) // batch_size // 10)  # ten lines of history, and ten checkpoints
    steps = 10 * steps_per_epoch
    schedule = WarmupLinearDecay(learning_rate, steps // 10, steps)
    model.compile(kbert.AdamW(schedule, weight_decay=0.01, bias_correction=True))  # the run is short
    before = score()
    resume = ExactResume(output, model, steps_per_epoch, settings=settings, inputs=files)
    data = task.training_data(
        pipeline, train, batch_size=batch_size, seed=seed, padding="bucket", group_by_length=False
    )

    model.fit(
        data.make_dataset(start_step=resume.step),
        steps_per_epoch=steps_per_epoch,
        epochs=10,
        initial_epoch=resume.epoch,
        callbacks=[resume],
        verbose=2,
    )

    # One model from strings to embeddings, to search with and to serve.
    after = score()
    kbert.save_pretrained(pipeline, pathlib.Path(output) / "model", overwrite=True)
    print("  ".join(f"STS-B {name} {before[name]:.4f} -> {after[name]:.4f}" for name in after if name != "examples"))
    return {"before": before, "after": after}


COMMAND = Command(verb=train_embeddings, resumes=True, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
