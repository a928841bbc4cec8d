"""Steps of training: alone, with TensorBoard, and fed by the input pipeline."""

import dataclasses
import functools
import itertools
import pathlib
import statistics
import tempfile
import time

import keras
import numpy as np

from benchmarks.peak import model_products, race_at_peak, with_gradients
from benchmarks.peers import fastest_peers, hub_backbone, with_and_without_xla
from benchmarks.settings import STEPS, UNCOUNTED, batches
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.training.flops import training_flops_per_token


class _StepTimes(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        if keras.backend.backend() == "tensorflow":
            self.ends.append(time.perf_counter())
        elif batch + 1 in (UNCOUNTED, STEPS + UNCOUNTED):  # JAX returns before a step is done
            float(logs["loss"])
            self.ends.append(time.perf_counter())


def train(settings):
    """Pre-training steps through `model.fit`: forward, backward, clipping and the optimizer.

    Returns:
        dict of tokens per second, GFLOP/s, its fraction of the peak and of the model's own products (`PeakFractions`),
        and the settings; with `settings.peers` the peers' speeds too.
    """
    config = settings.config()
    hardware = settings.hardware()
    model = BertPretrainer(config)
    model.compile(AdamW(WarmupLinearDecay(1e-4, 10_000, 1_000_000)), jit_compile=hardware.jit_compile)
    dataset = batches(settings, config)
    real_fraction = np.mean([batch[0]["padding_mask"].mean() for batch in dataset.as_numpy_iterator()])
    tokens = settings.batch_size * settings.sequence_length

    def rates(times):
        return [(tokens / seconds, real_fraction * tokens / seconds) for seconds in times]

    def hub_runner(jit_compile):
        hub = _hub_masked_lm(config, jit_compile)
        return lambda seconds: rates(_step_times(hub, dataset.map(_without_next_sentence)))

    def torch_runner(peer):
        return lambda seconds: rates(peer.seconds(units=STEPS if seconds else UNCOUNTED))

    kbert = {"kbert": lambda seconds: rates(_step_times(model, dataset))}
    hub = "keras_hub.BertMaskedLM", functools.partial(with_and_without_xla, hub_runner)
    sizes = settings.sequence_length, settings.max_predictions
    products = with_gradients(model_products(config, settings.batch_size, *sizes))
    with fastest_peers("train", settings, config, *hub, torch_runner) as (peers, chosen):
        result = race_at_peak(kbert | peers, settings, products, training_flops_per_token(config, *sizes))
    return result | {"peer_settings": chosen}


def _step_times(model, dataset):
    """Seconds of each steady step of one call of `fit`.

    Of JAX's only the mean, as waiting for each would leave the device idle between them.
    """
    times = _StepTimes()
    model.fit(dataset, verbose=0, callbacks=[times])
    if keras.backend.backend() != "tensorflow":
        return [(times.ends[1] - times.ends[0]) / STEPS]
    return [b - a for a, b in itertools.pairwise(times.ends[UNCOUNTED - 1 :])]


def _hub_masked_lm(config, jit_compile, tokenizer=None, settings=None):
    """With a tokenizer it takes strings, and masks them."""
    import keras_hub

    preprocessor = None
    if tokenizer is not None:
        preprocessor = keras_hub.models.BertMaskedLMPreprocessor(
            keras_hub.models.BertTokenizer(tokenizer.vocabulary, lowercase=True),
            sequence_length=settings.sequence_length,
            mask_selection_length=settings.max_predictions,
        )
    model = keras_hub.models.BertMaskedLM(backbone=hub_backbone(config), preprocessor=preprocessor)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy()],
        jit_compile=jit_compile,
    )
    return model


def _without_next_sentence(inputs, labels, weights):
    return inputs, labels["mlm_logits"], weights["mlm_logits"]


_STEPS = 100  # of a call: recipes write curves every 100 steps or so


def board(settings):
    """Pre-training steps with and without TensorBoard, in turn: calls of `fit` of 103 steps each.

    An upper bound: the time of the calls without TensorBoard counts for the fraction of the time that samples may take.

    Returns:
        dict of milliseconds a step, medians of the calls without and with TensorBoard; `overhead`, by how much the
        total time with it is longer; `processor_overhead`, the same of processor time, which other programs disturb
        less; `once_seconds`, what the first call takes more than a later one: the first sample; and the settings.
    """
    from kbert.inspection.board.tensor_board import TensorBoard  # not above: see `feed`

    config = settings.config()
    hardware = settings.hardware()
    model = BertPretrainer(config)
    model.compile(AdamW(1e-4), jit_compile=hardware.jit_compile)
    dataset = batches(settings, config, _STEPS)
    with tempfile.TemporaryDirectory() as directory:
        shown = next(iter(dataset.as_numpy_iterator()))
        callback = TensorBoard(pathlib.Path(directory) / "logs", batch=shown, wait_for_finish=True)

        def seconds(*callbacks):
            start, cpu = time.perf_counter(), time.process_time()
            model.fit(dataset, verbose=0, callbacks=list(callbacks))
            processor["with" if callbacks else "without"] += time.process_time() - cpu
            return time.perf_counter() - start

        processor = {"without": 0.0, "with": 0.0}
        seconds()  # traces the step
        once = seconds(callback) - seconds()
        calls = {"without": [], "with": []}
        processor |= {"without": 0.0, "with": 0.0}
        end = time.perf_counter() + settings.seconds * settings.rounds
        while time.perf_counter() < end or not calls["with"]:
            for name, callbacks in (("without", ()), ("with", (callback,))):
                calls[name].append(seconds(*callbacks))
    each = 1e3 / (_STEPS + UNCOUNTED)
    return {
        "ms_per_step": each * statistics.median(calls["without"]),
        "ms_per_step_with_tensorboard": each * statistics.median(calls["with"]),
        "overhead": sum(calls["with"]) / sum(calls["without"]) - 1,
        "processor_overhead": processor["with"] / processor["without"] - 1,
        "once_seconds": once,
        "calls": len(calls["with"]),
    } | settings.of_model()


_SETTLING = 1.0  # seconds, in which the pipeline fills its buffers
_LEAST_STEPS = 3  # of settling and of measuring


class _Steps(keras.callbacks.Callback):
    """Ends a training some seconds after it has settled, and counts."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds
        self.ends = []
        self.processor = []

    def on_train_begin(self, logs=None):
        self.begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        if not self.ends and (batch + 1 < _LEAST_STEPS or now < self.begin + _SETTLING):
            return
        self.ends.append(now)
        self.processor.append(time.process_time())
        if len(self.ends) > _LEAST_STEPS and now > self.ends[0] + self.seconds:
            self.model.stop_training = True

    def wall(self):
        return [after - before for before, after in itertools.pairwise(self.ends)]

    def processor_each(self):
        return (self.processor[-1] - self.processor[0]) / (len(self.processor) - 1)


def feed(settings):
    """Pre-training steps with one batch of the corpus again and again, and with the input pipeline, in turn.

    Each call of `fit` begins the pipeline anew, so that it draws pools of pairs more often than in a long run: an upper
    bound of its cost.

    Returns:
        dict of milliseconds a step, with the one batch and with the pipeline, medians of all steps; the same of
        processor time, medians of the rounds; `input_processor_fraction`, by how much more processor time a step takes
        with the pipeline; and the settings.
    """
    import tensorflow as tf  # not above: training runs on JAX without TensorFlow too

    from benchmarks.text import real_batches
    from kbert.config import default_num_parts

    config = settings.config()
    hardware = settings.hardware()
    pipeline = real_batches(settings)
    one = tf.data.Dataset.from_tensors(next(iter(pipeline))).repeat()
    parts = default_num_parts(settings.sequence_length) if settings.packed else None
    model = BertPretrainer(config, num_parts=parts)
    model.compile(AdamW(1e-4), jit_compile=hardware.jit_compile)
    sources = {"one_batch": one, "pipeline": pipeline}
    wall = {name: [] for name in sources}
    processor = {name: [] for name in sources}
    for number in range(settings.rounds + 1):
        for name, dataset in sources.items():
            steps = _Steps(settings.seconds if number else 0.0)
            model.fit(dataset, epochs=1, steps_per_epoch=10**9, verbose=0, callbacks=[steps])
            if number:  # the first round traces the step
                wall[name] += steps.wall()
                processor[name].append(steps.processor_each())
    result = {}
    for name in sources:
        result[f"{name}_ms_per_step"] = 1e3 * statistics.median(wall[name])
        result[f"{name}_processor_ms_per_step"] = 1e3 * statistics.median(processor[name])
    fraction = result["pipeline_processor_ms_per_step"] / result["one_batch_processor_ms_per_step"] - 1
    about = settings.of_model() | {"data": "real", "packed": settings.packed}
    return result | {"input_processor_fraction": fraction} | about


_FIT_STEPS = 200  # of an epoch: what a call of `fit` does once, about a second, is spread over them


def fit(settings):
    """Epochs of `pipeline.fit` on strings, of `model.fit` on `pretraining_dataset`, and of keras-hub's, in turn.

    The work is the same: texts that fill a row, which every epoch tokenises and masks anew; a head on the masked
    positions; clipping and AdamW. The rows and masks of the first two are the same, too.

    Returns:
        dict of milliseconds of processor time a step, medians of the rounds, of each system, as tokens/s, too, and its
        loss in the first and the last epoch; by how much more time `pipeline.fit` takes than each of the others, the
        median of the rounds' ratios; and the settings.
    """
    import kbert  # not above: see `feed`
    from benchmarks.text import prose_lines, tokenizer_of
    from kbert.corpus.documents import DocumentList
    from kbert.pretraining.dataset import pretraining_dataset

    config, hardware = settings.config(), settings.hardware()
    tokenizer = tokenizer_of(settings)
    words = " ".join(prose_lines(settings)).split()
    counts = tokenizer(words).row_lengths().numpy()
    texts = _full_rows(words, counts, settings.sequence_length - 2, settings.batch_size * _FIT_STEPS)
    masking = {"max_predictions": settings.max_predictions, "seed": 1}

    config = dataclasses.replace(config, vocabulary_size=tokenizer.vocabulary_size)

    def model():
        new = BertPretrainer(config, next_sentence=False)
        new.compile(AdamW(1e-4), jit_compile=hardware.jit_compile)
        return new

    pipeline = kbert.build_pipeline(model(), tokenizer, sequence_length=settings.sequence_length, masking=masking)
    pipeline.compile(AdamW(1e-4), jit_compile=hardware.jit_compile)
    by_hand = model()
    documents = DocumentList([[text] for text in texts])
    options = {"held_out": 0.0, "next_sentence": False, "short_sequence_rate": 0.0, "epochs": 1}
    sizes = {"batch_size": settings.batch_size, "sequence_length": settings.sequence_length}

    def fit_by_hand():  # the dataset is built here, as `pipeline.fit` builds its own
        return by_hand.fit(pretraining_dataset(documents, tokenizer, **masking, **sizes, **options), verbose=0)

    systems = {
        "pipeline.fit": lambda: pipeline.fit(texts, batch_size=settings.batch_size, verbose=0),
        "model.fit": fit_by_hand,
    }
    if settings.peers:
        hub = _hub_masked_lm(by_hand.config, False, tokenizer, settings)
        systems["keras_hub.BertMaskedLM"] = lambda: hub.fit(texts, batch_size=settings.batch_size, verbose=0)
    times = {name: [] for name in systems}
    losses = {name: [] for name in systems}
    for number in range(settings.rounds + 1):
        for name, run in systems.items():
            start = time.process_time()
            losses[name] += run().history["loss"]
            if number:  # the first round traces the step
                times[name].append(1e3 * (time.process_time() - start) / _FIT_STEPS)
    steps = {int(one.optimizer.iterations) for one in (pipeline.model, by_hand)}
    if steps != {_FIT_STEPS * (settings.rounds + 1)}:
        raise RuntimeError(f"Expected {_FIT_STEPS} steps in each of {settings.rounds + 1} epochs. Received: {steps}")
    result = {f"{name} processor ms per step": statistics.median(each) for name, each in times.items()}
    tokens = settings.batch_size * settings.sequence_length
    result |= {f"{name} tokens/s": 1e3 * tokens / statistics.median(each) for name, each in times.items()}
    result |= {f"{name} loss": [each[0], each[-1]] for name, each in losses.items()}
    for name in list(systems)[1:]:
        ratios = [own / other for own, other in zip(times["pipeline.fit"], times[name], strict=True)]
        result[f"more than {name}"] = statistics.median(ratios) - 1
    return result | settings.of_model() | {"data": "real"}


def _full_rows(words, counts, length, number):
    """Texts of whole words, as many as a row of `length` tokens holds; `counts` are the tokens of each word."""
    texts = []
    row = []
    left = length
    for word, count in itertools.cycle((w, c) for w, c in zip(words, counts, strict=True) if c <= length):
        if count > left:
            texts.append(" ".join(row))
            row, left = [], length
            if len(texts) == number:
                return texts
        row.append(word)
        left -= count
