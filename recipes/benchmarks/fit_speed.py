"""How fast is `pipeline.fit` on strings, beside `model.fit` on batches and keras-hub?

    python recipes/benchmarks/fit_speed.py --size tiny --batch-size 8 --peers

Epochs on texts that fill a row, which every epoch tokenizes and masks anew. `pipeline.fit` and `model.fit` have the
same texts and as many masks. The work of keras-hub is the same: a head on the masked positions, clipping, AdamW.
"""

import functools
import itertools
import tempfile

import keras
from tokenizer_speed import prose_lines
from training_speed import hub_backbone
from turns import arguments, is_installed, report, take_turns, timed

import kbert
from kbert.config import default_max_predictions
from kbert.corpus.write_records import write_records
from kbert.pretraining.dataset import pretraining_dataset
from kbert.text import BertTokenizer, learn_vocabulary
from kbert.text.vocabulary import read_vocabulary
from kbert.training.hardware import choose_hardware

STEPS = 200  # of an epoch: what a call of `fit` does once, about a second, is spread over them


def main(corpus, vocabulary, size, batch_size, sequence_length, peers, rounds, seconds):
    lines = prose_lines(corpus)
    tokens = read_vocabulary(vocabulary) if vocabulary else learn_vocabulary(lines, 8000)
    texts = full_rows(" ".join(lines).split(), BertTokenizer(tokens), sequence_length - 2, batch_size * STEPS)
    config = kbert.BertConfig.from_size(size, vocabulary_size=len(tokens))
    own = texts, tokens, config, batch_size, sequence_length
    systems = {"pipeline.fit": functools.partial(fit_on_strings, *own)}
    systems["model.fit"] = functools.partial(fit_on_batches, *own)
    if peers and is_installed("keras_hub"):
        systems["keras-hub"] = functools.partial(fit_hub, *own)
    report(take_turns(systems, rounds, seconds), STEPS * batch_size * sequence_length)


def full_rows(words, tokenizer, length, number):
    """Texts of whole words, as many as a row of `length` tokens takes."""
    counts = tokenizer(words).row_lengths().numpy()
    texts, row, left = [], [], length
    for word, count in itertools.cycle((w, c) for w, c in zip(words, counts, strict=True) if c <= length):
        if count > left:
            texts.append(" ".join(row))
            row, left = [], length
            if len(texts) == number:
                return texts
        row.append(word)
        left -= count


def _masking(sequence_length):
    return {"max_predictions": default_max_predictions(sequence_length), "seed": 1}


def _compiled(config):
    model = kbert.BertPretrainer(config, next_sentence=False)
    model.compile(kbert.AdamW(1e-4), jit_compile=choose_hardware("one").jit_compile)
    return model


def fit_on_strings(texts, tokens, config, batch_size, sequence_length):
    masking = _masking(sequence_length)
    tokenizer = BertTokenizer(tokens)
    model = _compiled(config)
    pipeline = kbert.build_pipeline(model, tokenizer, sequence_length=sequence_length, masking=masking)
    pipeline.compile(kbert.AdamW(1e-4), jit_compile=model.jit_compile)
    return timed(lambda: pipeline.fit(texts, batch_size=batch_size, verbose=0))


def fit_on_batches(texts, tokens, config, batch_size, sequence_length):
    model, tokenizer = _compiled(config), BertTokenizer(tokens)
    options = {"next_sentence": False, "short_sequence_rate": 0.0, "epochs": 1}
    options |= {"batch_size": batch_size, "sequence_length": sequence_length, **_masking(sequence_length)}

    def fit():  # tokenizes in each call, as `pipeline.fit` does
        with tempfile.TemporaryDirectory() as directory:
            records = write_records([[text] for text in texts], tokenizer, directory, held_out=0.0)
            model.fit(pretraining_dataset(records, tokenizer, **options), verbose=0)

    return timed(fit)


def fit_hub(texts, tokens, config, batch_size, sequence_length):
    import keras_hub

    preprocessor = keras_hub.models.BertMaskedLMPreprocessor(
        keras_hub.models.BertTokenizer(list(tokens), lowercase=True),
        sequence_length=sequence_length,
        mask_selection_length=default_max_predictions(sequence_length),
    )
    model = keras_hub.models.BertMaskedLM(backbone=hub_backbone(config), preprocessor=preprocessor)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy()],
        jit_compile=False,
    )
    return timed(lambda: model.fit(texts, batch_size=batch_size, verbose=0))


if __name__ == "__main__":
    parser = arguments(__doc__, corpus="", vocabulary="", size="tiny", batch_size=8, sequence_length=128)
    main(**vars(parser.parse_args()))
