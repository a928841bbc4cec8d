"""Pre-train models side by side on one GPU, with JAX: rows, masks and updates are one compiled loop.

    python recipes/gpu_rows.py records --output rows --lengths 128 512 --epochs 6         # with TensorFlow
    KERAS_BACKEND=jax python recipes/pretrain_on_gpu.py rows --init saved_models/kbert-mini --output runs/mini \\
        --phases 128:0.9 512:0.1 --batch-size 256 --steps 56000 --learning-rates 2e-3 --schedule linear --warmup 0.02

It needs JAX, Keras and NumPy alone. Masks of single tokens are new at every visit. A model for each of --learning-rates
and --masks trains at once; of each mixture of masks it writes the model with the lowest held-out loss at the end, and
the same model after each fifth of the run: model directories, with weights in float16.

``kbert pretrain`` trains the same models by `model.fit`. Here no step returns to Python: tiny's steps take less time
than a call. A killed run leaves nothing to continue.
"""

import pathlib
import time
from typing import Literal

from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.options import Count, Fraction, Natural, NonzeroFraction


def pretrain_on_gpu(
    rows: PathLike,
    output: PathLike,
    *,
    size: str | None = None,
    left_to_right: bool = False,
    init: PathLike | None = None,
    phases: list[tuple[Count, NonzeroFraction]] = ((128, 1.0),),
    batch_size: Count = 16,
    steps: Count = 40_000,
    chunk: Count = 200,
    learning_rates: list[float] = (1e-3,),
    masks: list[str] = ("80/10/10",),
    schedule: Literal["stable", "linear"] = "stable",
    warmup: Fraction = 0.05,
    precision: Literal["mixed_bfloat16", "float32"] = "mixed_bfloat16",
    seed: Natural = 0,
) -> None:
    """Pre-trains a model for each learning rate and mixture of masks, all in one loop.

    Args:
        rows: directory that gpu_rows.py wrote.
        output: new directory, with a run for each mixture.
        size: of new models, such as tiny.
        left_to_right: new models in which every token predicts the next one.
        init: a model directory to start from, instead of new weights.
        phases: LENGTH:FRACTION of the steps.
        batch_size: rows per update of the first phase; updates of the others have as many tokens.
        steps: updates.
        chunk: steps of a call, after which held-out rows are scored.
        learning_rates: peaks.
        masks: MASK/SAME/RANDOM, percentages of the masked tokens.
        schedule: "linear" falls to 0 from the warm-up on, "stable" in the last fifth only.
        warmup: fraction of the steps.
        precision: of the computation.
        seed: determines new weights and masks.
    """
    import keras

    if keras.backend.backend() != "jax":
        raise ValueError(f"pretrain_on_gpu: expected KERAS_BACKEND=jax. Received: {keras.backend.backend()}")
    import jax
    import jax.numpy as jnp
    import numpy as np
    from experiments.jax_loop import Loop, evaluation_order, first_model, read_mixture, read_plan, write_models

    from kbert.files import read_json
    from kbert.text.vocabulary import read_vocabulary

    rows, output = pathlib.Path(rows), pathlib.Path(output)
    about = read_json(rows / "rows.json")
    vocabulary = read_vocabulary(rows / "vocab.txt")
    chunk = min(chunk, steps)
    plan = read_plan(rows, phases, batch_size, steps, chunk)
    mixtures = [read_mixture(mixture) for mixture in masks]

    # The models: one set of first weights, trained with each rate and mixture.
    keras.config.set_dtype_policy(precision)
    model = first_model(about, vocabulary, init, size, left_to_right, seed)
    rates = [rate for rate in learning_rates for _ in masks]
    special_ids = [vocabulary.index(token) for token in ("[CLS]", "[SEP]", "[MASK]")]
    loop = Loop(model, special_ids, rates, mixtures * len(learning_rates), schedule == "stable")
    output.mkdir(parents=True)

    # The data stay on the device; a chunk is the numbers of its rows.
    tokens, held_out = (jnp.asarray(np.load(rows / f"{word}-tokens.npy")) for word in ("train", "held-out"))
    key = jax.random.PRNGKey(seed)
    step = 0
    seconds = 0.0
    kept = {}
    history = []
    for length, batch, end in plan:
        table, scored = (jnp.asarray(np.load(rows / f"{word}-{length}.npy")) for word in ("train", "held-out"))
        order = evaluation_order(scored.shape[1], length)
        start = step
        while step < end:
            begin = time.monotonic()
            index = np.arange((step - start) * batch, (step - start + chunk) * batch) % table.shape[1]
            index = jnp.asarray(index.reshape(chunk, batch).astype("i4"))
            first = jnp.asarray(step)
            times = (float(steps), warmup * steps)
            loop.state, loss = loop.train(loop.state, tokens, table, first, index, key, *times, length=length)
            loss = np.asarray(loss)  # waits
            seconds += time.monotonic() - begin
            step += chunk
            scores = np.asarray(loop.evaluate(loop.state, held_out, scored, order, length=length))
            history.append((step, length, seconds, loss, scores))
            print(step, *(f"{a:.3f} {b:.1%} {c:.1%}" for a, b, c in scores), f"{seconds:.0f} s", flush=True)
            if step * 5 % steps == 0:
                kept[step] = [np.asarray(values) for values in loop.state[0]]

    # Of each mixture the model with the lowest held-out loss.
    final = np.nan_to_num(history[-1][-1][:, 0], nan=np.inf)
    for number, mixture in enumerate(masks):
        best = min(range(number, len(rates), len(masks)), key=final.__getitem__)
        chosen = {"learning_rate": rates[best], "masks": mixture, "schedule": schedule, "warmup": warmup}
        chosen |= {"size": size, "left_to_right": left_to_right, "init": init, "phases": phases, "steps": steps}
        chosen |= {"batch_size": batch_size, "precision": precision, "seed": seed}
        write_models(output / mixture.replace("/", "-"), loop, kept, history, best, vocabulary, chosen, about)


COMMAND = Command(verb=pretrain_on_gpu, positional=("rows",), epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
