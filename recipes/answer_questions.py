"""Fine-tune BERT to answer questions with a span of a text, with Keras' compile and fit: sections 4.2 and 4.3.

    python recipes/answer_questions.py --train squad/train-v1.1.json --dev squad/dev-v1.1.json \\
        --source google-bert/bert-base-uncased --output runs/squad

A start and an end vector are the only new weights; long texts are read in overlapping windows. Where some questions
have no answer (SQuAD 2.0), the model learns to say so. A killed run goes on exactly when the same command is given
again. ``kbert finetune span`` does the same with all its options.
"""

import pathlib

import keras

import kbert
from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.optim import WarmupLinearDecay
from kbert.options import Count, Natural, Positive, record
from kbert.preprocessing import SpanPreprocessor
from kbert.tasks.span.evaluation import span_windows
from kbert.tasks.training_data import training_dataset, window_rows
from kbert.training import ExactResume


def answer_questions(
    train: PathLike,
    dev: PathLike,
    source: PathLike,
    output: PathLike,
    *,
    epochs: Count = 3,
    batch_size: Count = 32,
    sequence_length: Count = 384,
    doc_stride: Count = 128,
    max_query_length: Count = 64,
    learning_rate: Positive = 5e-5,
    seed: Natural = 0,
) -> dict:
    """Fine-tunes on questions of SQuAD's format, and scores the answers by its rules.

    Args:
        train, dev: questions with contexts and answers.
        source: the pre-trained model.
        output: directory for the checkpoints and the model.
        epochs: passes over the questions.
        batch_size: windows per update.
        sequence_length: tokens of a question with a window of its context.
        doc_stride: tokens from one window to the next.
        max_query_length: the most tokens of a question.
        learning_rate: the peak.
        seed: determines the new layer, dropout and the order of the windows.
    """
    settings = record(answer_questions, locals())
    files = {"train": train, "dev": dev, "source": source}
    output = pathlib.Path(output)
    keras.utils.set_random_seed(seed)

    # The data: questions, contexts, and where the answers are. What is not in its context cannot be learned.
    task = kbert.tasks.SpanExtraction(doc_stride=doc_stride, max_query_length=max_query_length)
    task, questions = task.for_training(task.read(train))
    asked = task.read(dev)

    # The model: the pre-trained encoder, and for every token the logits of being the first and the last of the answer.
    encoder = kbert.load_pretrained(source, task="encoder", sequence_length=sequence_length)
    tokenizer = encoder.pretrained.tokenizer
    model = kbert.BertSpanExtractor(encoder)

    # Windows: [CLS] question [SEP] a part of the context [SEP], with the answer's tokens, or [CLS] where it is not.
    preprocessor = SpanPreprocessor(tokenizer, sequence_length, doc_stride, max_query_length)
    windows, positions = span_windows(questions, preprocessor)
    steps_per_epoch = max(1, len(questions) // batch_size)  # as many windows as there are questions
    steps = epochs * steps_per_epoch
    model.compile(kbert.AdamW(WarmupLinearDecay(learning_rate, steps // 10, steps), weight_decay=0.01))

    resume = ExactResume(output, model, steps_per_epoch, settings=settings, inputs=files)
    model.fit(
        training_dataset(window_rows(windows, positions), batch_size=batch_size, seed=seed, start_step=resume.step),
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        initial_epoch=resume.epoch,
        callbacks=[resume],
        verbose=2,
    )

    # One model from strings to answers: the n best spans of all windows of a context.
    pipeline = kbert.build_pipeline(
        model,
        tokenizer,
        sequence_length=sequence_length,
        doc_stride=doc_stride,
        max_query_length=max_query_length,
    )
    # Of SQuAD 2.0, a threshold decides that there is no answer: the one with the best F1 on dev is stored.
    result = task.evaluate(pipeline, asked, choose=True)
    scores = result.scores
    pipeline = kbert.build_pipeline(model, tokenizer, **pipeline.options() | result.settings)
    kbert.save_pretrained(pipeline, output / "model", overwrite=True)
    print(f"EM {scores['exact']:.1f}, F1 {scores['f1']:.1f}")
    return scores


COMMAND = Command(verb=answer_questions, resumes=True, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
