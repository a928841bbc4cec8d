"""What the runs of the fault tests read, written in a second or two, and other inputs of the same names."""

from helpers.tiny_corpus import VOCABULARY, make_documents, write_lines
from helpers.tiny_directory import sentences, write_table, write_tiny_directory


def write_inputs(home):
    """corpus.txt, vocab.txt, records/, train.csv and init/ in a new directory, and under other/ what may replace each.

    Nothing of other/ is refused by a reader: only a run that has begun with the first can tell.
    """
    home.mkdir()
    _write(home, 0, VOCABULARY)
    (home / "other").mkdir()
    _write(home / "other", 1, [*VOCABULARY[:7], *reversed(VOCABULARY[7:])])
    return home


def _write(home, number, vocabulary):
    import kbert
    from kbert.corpus.write_records import write_records

    write_lines(home / "corpus.txt", make_documents(60, seed=number))
    (home / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    labels = ("good", "bad") if number else ("bad", "good")
    write_table(home / "train.csv", [(text, labels[label == "good"]) for text, label in sentences(61)])
    write_tiny_directory(home / "init")
    if number:
        model = kbert.load_pretrained(home / "init")
        model.set_weights([-value for value in model.get_weights()])
        kbert.save_pretrained(model, home / "init", overwrite=True)
    write_tiny_directory(home / "classifier", "classification", num_labels=2)
    (home / "texts.txt").write_text("".join(f"{text}\n" for text, _ in sentences(300, number)))
    documents = [[text for text, _ in sentences(5, start)] for start in range(number, 200, 5)]
    write_records(documents, kbert.BertTokenizer(home / "init" / "vocab.txt"), home / "records", held_out=0.2)
