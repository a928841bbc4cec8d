"""Pre-train models side by side on one GPU, with JAX: rows, masks and updates are one compiled loop.

    python recipes/pretrain_on_gpu.py rows records --output rows --lengths 128 512 --epochs 6
    KERAS_BACKEND=jax python recipes/pretrain_on_gpu.py train rows --init saved_models/kbert-mini --output runs/mini \\
        --phases 128:0.9 512:0.1 --batch-size 256 --steps 56000 --learning-rates 2e-3 --schedule linear --warmup 0.02

`rows` needs TensorFlow: it writes the tokens of the records and the pairs that kbert draws from them. `train` needs
JAX, Keras and NumPy alone; masks of single tokens are new at every visit. It trains a model for each of
--learning-rates and --masks at once. Of each mixture of masks it writes the model with the lowest held-out loss at the
end, and the same model after each fifth of the run: kbert directories, with weights in float16.

`kbert pretrain` trains the same models by `model.fit`. Here no step returns to Python: tiny's steps take less time than
a call. A killed run leaves nothing to continue.

Shapes: B batch, S sequence, P predictions, M models, n steps of a chunk, R rows.
"""

import argparse
import json
import pathlib
import time
import types

import keras
import numpy as np

from kbert.config import default_max_predictions
from kbert.corpus.records_manifest import MANIFEST, VOCABULARY
from kbert.files import read_json, sha256, write_directory, write_json
from kbert.pipelines.settings import ModelSettings
from kbert.pretraining.run.new_model import new_model
from kbert.pretraining.run.phases import read_phases
from kbert.pretraining.run.stored_batches import stored_model
from kbert.text.vocabulary import read_vocabulary
from kbert.training.made_by import describe_maker
from kbert.versions import versions
from kbert.weights.formats.kbert import KbertFormat

ROWS = "rows.json"
HELD_OUT_TOKENS = 6400 * 128  # that are scored


def write_rows(arguments) -> None:
    """Tokens [t] and tables of pairs of the records, for training and held out.

    A table [5, R] has start and length of A, start and length of B, and whether B is random.
    """
    from kbert.corpus.records import Records
    from kbert.pretraining.pairs import max_pair_tokens, sentence_pairs

    records, output = Records(arguments.records), pathlib.Path(arguments.output)
    if not records.held_out:
        raise ValueError(f"{records.directory} holds out no documents, which show how training goes")
    output.mkdir(parents=True)
    (output / VOCABULARY).write_bytes((records.directory / VOCABULARY).read_bytes())
    for held_out, shards in ((False, records.training), (True, records.held_out)):
        pools = [records.pool(number, held_out) for number in range(len(shards))]
        word = "held-out" if held_out else "train"
        np.save(output / f"{word}-tokens.npy", np.concatenate([pool.token_ids.numpy() for pool in pools]))
        for length in arguments.lengths:
            tables = []
            for epoch in range(1 if held_out else arguments.epochs):
                begin, found = 0, []
                for pool in pools:
                    tokens = max_pair_tokens(length, arguments.next_sentence)
                    pairs = sentence_pairs(pool, arguments.seed, epoch, tokens, next_sentence=arguments.next_sentence)
                    table = np.array([column.numpy() for column in pairs[:5]], np.int32)
                    table[[0, 2]] += begin  # of all tokens, not of the pool's
                    begin += len(pool.token_ids)
                    found.append(table)
                order = np.random.default_rng((arguments.seed, epoch)).permutation(sum(t.shape[1] for t in found))
                tables.append(np.concatenate(found, axis=1)[:, order])
            np.save(output / f"{word}-{length}.npy", np.concatenate(tables, axis=1))  # [5, R]
            print(f"{word}, {length} tokens: {tables[0].shape[1]:,} rows an epoch")
    about = {name: getattr(arguments, name) for name in ("next_sentence", "lengths", "epochs", "seed")}
    about |= {"tokenizer": records.manifest["tokenizer"], "records": sha256(records.directory / MANIFEST)}
    write_json(output / ROWS, about)


def lay_out(tokens, rows, length, next_sentence, cls_id, sep_id):
    """[CLS] A [SEP] B [SEP] of rows of a table: token ids and segments int32 [B, S], padding mask bool [B, S]."""
    import jax.numpy as jnp

    a, a_length, b, b_length, _ = (column[:, None] for column in rows)
    place = jnp.arange(length)[None]
    in_a = (place >= 1) & (place <= a_length)
    in_b = (place >= a_length + 2) & (place < a_length + 2 + b_length) & next_sentence
    token_ids = tokens[jnp.where(in_a, a + place - 1, jnp.where(in_b, b + place - a_length - 2, 0))].astype("int32")
    end = a_length + (b_length + 2 if next_sentence else 1)
    is_sep = (place == a_length + 1) | (place == end)
    token_ids = jnp.where(place == 0, cls_id, jnp.where(is_sep, sep_id, jnp.where(in_a | in_b, token_ids, 0)))
    return token_ids, ((place > a_length + 1) & (place <= end)).astype("int32"), place <= end


def mask_tokens(key, token_ids, is_candidate, lengths, predictions, rates, mask_id, vocabulary_size):
    """Masks as `kbert.pretraining.masking.TokenMasking` makes them of single tokens.

    `lengths` [B] count all tokens, `rates` are those of [MASK] and of tokens that stay. Returns the corrupted ids
    [B, S], and positions, labels and weights [B, P].
    """
    import jax
    import jax.numpy as jnp

    choice, corruption, replacement = jax.random.split(key, 3)
    # Of each length by Python: products in float32 round differently at 190 tokens, for example.
    wanted = [min(max(1, round(0.15 * length)), predictions) for length in range(token_ids.shape[1] + 1)]
    wanted = jnp.asarray(wanted)[lengths]
    noise = jnp.where(is_candidate, jax.random.uniform(choice, token_ids.shape), 2.0)
    order = jax.lax.top_k(-noise, predictions)[1]
    is_mask = jnp.arange(predictions)[None] < jnp.minimum(wanted, is_candidate.sum(1))[:, None]
    positions = jnp.sort(jnp.where(is_mask, order, token_ids.shape[1]), axis=1)
    is_mask = positions < token_ids.shape[1]
    positions = jnp.where(is_mask, positions, 0)
    labels = jnp.take_along_axis(token_ids, positions, 1)
    drawn = jax.random.uniform(corruption, labels.shape)
    other = jax.random.randint(replacement, labels.shape, 0, vocabulary_size)
    new = jnp.where(drawn < rates[0], mask_id, jnp.where(drawn < rates[0] + rates[1], labels, other))
    rows = jnp.arange(len(token_ids))[:, None]
    token_ids = token_ids.at[rows, positions].add(jnp.where(is_mask, new - labels, 0))
    return token_ids, positions, jnp.where(is_mask, labels, 0), is_mask.astype("float32")


def next_tokens(token_ids, is_candidate, predictions):
    """As `kbert.pretraining.masking.NextTokens`, of single segments: positions, labels and weights [B, P]."""
    import jax.numpy as jnp

    following, is_real = token_ids[:, 1 : predictions + 1], is_candidate[:, 1 : predictions + 1]
    positions = jnp.where(is_real, jnp.arange(following.shape[1])[None], 0)
    return positions, jnp.where(is_real, following, 0), is_real.astype("float32")


class Loop:
    """M models that train on the same rows, each with a learning rate and a mixture of masks of its own.

    Args:
        model: `BertPretrainer` with the weights of the first step.
        special_ids: of [CLS], [SEP] and [MASK].
        rates: peaks of the learning rate [M].
        mixtures: fractions of masked tokens that become [MASK] or stay [M, 2]. Unused by a left-to-right model, whose
            every token predicts the next one.
        stable: whether the rate falls in the last fifth only.
    """

    def __init__(self, model, special_ids, rates, mixtures, stable):
        import jax
        import jax.numpy as jnp

        from kbert.optim.adamw import AdamW

        self.model, self.special_ids = model, special_ids
        self.left_to_right, self.stable = model.config.causal, stable
        self.optimizer = AdamW(rates[0], bias_correction=True)
        self.optimizer.build(model.trainable_variables)
        self.rate = [variable.name for variable in self.optimizer.variables].index("learning_rate")
        self.rates, self.mixtures = jnp.asarray(rates, "float32"), jnp.asarray(mixtures, "float32")
        groups = model.trainable_variables, model.non_trainable_variables, self.optimizer.variables
        self.state = tuple([jnp.stack([variable.value] * len(rates)) for variable in group] for group in groups)
        static = ("length",)
        self.train = jax.jit(self._train, static_argnames=static, donate_argnums=0)
        self.evaluate = jax.jit(self._evaluate, static_argnames=static)

    def _batch(self, tokens, rows, key, mixture, length):
        next_sentence, predictions = self.model.next_sentence, default_max_predictions(length, 0.15, self.left_to_right)
        cls_id, sep_id, mask_id = self.special_ids
        token_ids, segments, padding = lay_out(tokens, rows, length, next_sentence, cls_id, sep_id)
        is_candidate = padding & (token_ids != cls_id) & (token_ids != sep_id)
        if self.left_to_right:
            positions, labels, weights = next_tokens(token_ids, is_candidate, predictions)
        else:
            last = mask_id, self.model.config.vocabulary_size
            found = mask_tokens(key, token_ids, is_candidate, padding.sum(1), predictions, mixture, *last)
            token_ids, positions, labels, weights = found
        inputs = {"token_ids": token_ids, "segment_ids": segments, "padding_mask": padding, "mask_positions": positions}
        return inputs, {"mlm_logits": labels, "nsp_logits": rows[4]}, weights

    def _loss(self, trainable, others, batch, training):
        inputs, labels, weights = batch
        outputs, others = self.model.stateless_call(trainable, others, inputs, training=training)
        losses, weight = self.model.default_loss(), {"mlm_logits": weights}
        total = sum(loss(labels[name], outputs[name], weight.get(name)) for name, loss in losses.items())
        return total, (outputs, others)

    def _train(self, state, tokens, table, first, order, key, steps, warmup, length):
        """n updates on the rows `order` [n, B]: the state and the mean losses [M]."""
        import jax
        import jax.numpy as jnp

        def update(state, rate, mixture, rows, key):
            trainable, others, optimizer = state
            batch = self._batch(tokens, rows, key, mixture, length)
            gradient = jax.value_and_grad(self._loss, has_aux=True)
            (loss, (_, others)), gradients = gradient(trainable, others, batch, True)
            optimizer = [rate if n == self.rate else value for n, value in enumerate(optimizer)]
            trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)
            return (list(trainable), list(others), list(optimizer)), loss

        def step(carry, index):
            state, number = carry
            left = (steps - number) / steps
            rates = self.rates * jnp.where(
                number < warmup, number / warmup, jnp.clip(5 * left, 0, 1) if self.stable else left
            )
            keys = jax.random.split(jax.random.fold_in(key, number), len(rates))
            state, loss = jax.vmap(update, (0, 0, 0, None, 0))(state, rates, self.mixtures, table[:, index], keys)
            return (state, number + 1), loss

        (state, _), losses = jax.lax.scan(step, (state, first), order)
        return state, losses.mean(0)

    def _evaluate(self, state, tokens, table, order, length):
        """Masked-LM loss, its accuracy and the accuracy of next sentences [M, 3], of the rows `order` [n, B]."""
        import jax
        import jax.numpy as jnp

        def score(state, mixture, rows, key):
            batch = self._batch(tokens, rows, key, mixture, length)
            outputs = self._loss(state[0], state[1], batch, False)[1][0]
            logits, labels, weights = outputs["mlm_logits"], batch[1]["mlm_logits"], batch[2]
            losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)[..., 0]
            pairs = outputs["nsp_logits"].argmax(-1) == rows[4] if self.model.next_sentence else jnp.zeros(1)
            right = weights * (logits.argmax(-1) == labels)
            return jnp.stack([(weights * losses).sum(), right.sum(), weights.sum(), pairs.sum()])

        def step(total, index):
            key = jax.random.fold_in(jax.random.PRNGKey(0), index[0])  # the same masks in every evaluation
            return total + jax.vmap(score, (0, 0, None, None))(state, self.mixtures, table[:, index], key), None

        total, _ = jax.lax.scan(step, jnp.zeros((len(self.rates), 4)), order)
        return jnp.stack([total[:, 0] / total[:, 2], total[:, 1] / total[:, 2], total[:, 3] / order.size], 1)


def read_plan(arguments, chunk: int) -> list[tuple[int, int, int]]:
    """(length, rows of an update, last step) of each phase; updates of all phases have as many tokens."""
    plan, fraction, begin, rows = [], 0.0, 0, pathlib.Path(arguments.rows)
    phases = read_phases(arguments.phases, arguments.batch_size)
    for length, part, *_ in phases:
        fraction += part
        size, end = arguments.batch_size * phases[0][0] // length, round(fraction * arguments.steps)
        if size < 1 or end == begin or end % chunk:
            raise ValueError(
                f"train: expected phases of whole chunks of {chunk} steps, with a row an update or more. Received: "
                f"{arguments.phases}, {arguments.steps} steps of {arguments.batch_size} rows"
            )
        for word in ("train", "held-out"):
            if not (rows / f"{word}-{length}.npy").is_file():
                raise ValueError(f"{rows} has no rows of {length} tokens: `rows` writes them with --lengths {length}")
        plan.append((length, size, end))
        begin = end
    return plan


def read_mixture(text: str) -> list[float]:
    """The fractions of [MASK] and of the same token in a mixture such as 80/10/10."""
    parts = [int(part) for part in text.split("/")]
    if len(parts) != 3 or sum(parts) != 100:
        raise ValueError(f"--masks: expected three percentages that add up to 100. Received: {text}")
    return [part / 100 for part in parts[:2]]


def train(arguments) -> None:
    """Trains, and writes for each mixture the best model at the end and after each fifth, and the history."""
    if keras.backend.backend() != "jax":
        raise ValueError(f"train: expected KERAS_BACKEND=jax. Received: {keras.backend.backend()}")
    import jax
    import jax.numpy as jnp

    rows, output = pathlib.Path(arguments.rows), pathlib.Path(arguments.output)
    about, vocabulary = read_json(rows / ROWS), read_vocabulary(rows / VOCABULARY)
    chunk = min(arguments.chunk, arguments.steps)
    plan, mixtures = read_plan(arguments, chunk), [read_mixture(mixture) for mixture in arguments.masks]
    keras.config.set_dtype_policy(arguments.precision)
    model = first_model(arguments, about, vocabulary)
    output.mkdir(parents=True)
    rates = [rate for rate in arguments.learning_rates for _ in mixtures]
    special_ids = [vocabulary.index(token) for token in ("[CLS]", "[SEP]", "[MASK]")]
    loop = Loop(model, special_ids, rates, mixtures * len(arguments.learning_rates), arguments.schedule == "stable")
    tokens = jnp.asarray(np.load(rows / "train-tokens.npy"))
    held_out = jnp.asarray(np.load(rows / "held-out-tokens.npy"))
    key, step, seconds, kept, history = jax.random.PRNGKey(arguments.seed), 0, 0.0, {}, []
    for length, size, end in plan:
        table = jnp.asarray(np.load(rows / f"train-{length}.npy"))
        scored = jnp.asarray(np.load(rows / f"held-out-{length}.npy"))
        order = _evaluation_order(scored.shape[1], length)
        start = step
        while step < end:
            begin = time.monotonic()
            index = np.arange((step - start) * size, (step - start + chunk) * size) % table.shape[1]
            index = jnp.asarray(index.reshape(chunk, size).astype("i4"))
            schedule = float(arguments.steps), arguments.warmup * arguments.steps
            loop.state, loss = loop.train(
                loop.state, tokens, table, jnp.asarray(step), index, key, *schedule, length=length
            )
            loss = np.asarray(loss)  # waits
            seconds += time.monotonic() - begin
            step += chunk
            scores = np.asarray(loop.evaluate(loop.state, held_out, scored, order, length=length))
            history.append((step, length, seconds, loss, scores))
            print(step, *(f"{a:.3f} {b:.1%} {c:.1%}" for a, b, c in scores), f"{seconds:.0f} s", flush=True)
            if step * 5 % arguments.steps == 0:
                kept[step] = [np.asarray(values) for values in loop.state[0]]
    final = np.nan_to_num(history[-1][-1][:, 0], nan=np.inf)
    for number, mixture in enumerate(arguments.masks):
        best = min(range(number, len(rates), len(mixtures)), key=final.__getitem__)
        _write(arguments, about, vocabulary, loop.model, kept, history, best, rates[best], mixture)


def first_model(arguments, about, vocabulary):
    """The model that all begin as: new, with the settings "small-budget", or that of `--init`."""
    if arguments.init is not None:
        if arguments.left_to_right or arguments.size:
            raise ValueError(
                "train: --init has its own size and direction. Received: --size or --left-to-right as well"
            )
        no_dropout = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
        return stored_model(arguments.init, about["next_sentence"], vocabulary, about["tokenizer"], no_dropout)
    keras.utils.set_random_seed(arguments.seed)
    new = {"size": arguments.size, "dropout": 0.0, "initializer_stddev": "scaled", "position_embedding": None}
    new |= {"position_initializer": "sinusoidal", "sequence_length": max(about["lengths"])}
    new |= {"left_to_right": arguments.left_to_right, "next_sentence": about["next_sentence"]}
    return new_model(types.SimpleNamespace(**new), len(vocabulary))


def _evaluation_order(rows, length):
    """The held-out rows that are scored, spread over all of them: [n, B]."""
    import jax.numpy as jnp

    size = min(32, rows)
    count = min(rows, HELD_OUT_TOKENS // length) // size * size
    return jnp.asarray(np.linspace(0, rows - 1, count, dtype="i4").reshape(-1, size))


def _write(arguments, about, vocabulary, model, kept, history, best, rate, mixture):
    """A run directory of one mixture: model/, history.jsonl and a folder for each fifth."""
    import jax

    names = ("seconds", "loss", "val_mlm_cross_entropy", "val_mlm_accuracy", "val_nsp_accuracy")
    run, before, lines = pathlib.Path(arguments.output) / mixture.replace("/", "-"), 0.0, []
    run.mkdir()
    for step, length, seconds, loss, scores in history:
        values = dict(zip(names, (seconds - before, loss[best], *scores[best]), strict=True))
        lines.append({"step": step, "sequence_length": length} | {name: float(x) for name, x in values.items()})
        before = seconds
    (run / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    settings = {name: value for name, value in vars(arguments).items() if name not in ("function", "rows", "output")}
    settings |= {"learning_rate": rate, "masks": mixture, "device": jax.devices()[0].device_kind, "init": None}
    made_by = {"recipe": "pretrain_on_gpu.py", "versions": {**versions(), "jax": jax.__version__}}
    made_by |= {"settings": settings, "inputs": {"rows": about}}
    if arguments.init is not None:
        made_by["inputs"]["init"] = {
            "name": pathlib.Path(arguments.init).name,
            "made_by": describe_maker(arguments.init),
        }
    last = {name.removeprefix("val_"): value for name, value in lines[-1].items() if name.startswith("val_")}
    stored = ModelSettings(task=model.task, sequence_length=lines[0]["sequence_length"], tokenizer=about["tokenizer"])
    for step, weights in kept.items():
        for variable, values in zip(model.trainable_variables, weights, strict=True):
            variable.assign(values[best])
        metrics = {"steps": step, "minutes": history[-1][2] / 60, "parameters": model.count_params()}
        made = made_by | {"metrics": metrics | (last if step == arguments.steps else {})}

        def write(partial, made=made):
            KbertFormat().write(partial, model, stored, vocabulary, made_by=made, storage_dtype="float16")

        write_directory(run / ("model" if step == arguments.steps else f"model@{step}"), write)
    print(run)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    rows = commands.add_parser("rows")
    rows.add_argument("records")
    rows.add_argument("--lengths", type=int, nargs="+", default=[128])
    rows.add_argument("--epochs", type=int, default=2, help="visits to each document, with new pairs (default: 2)")
    rows.add_argument("--no-next-sentence", dest="next_sentence", action="store_false")
    rows.set_defaults(function=write_rows)
    loop = commands.add_parser("train")
    loop.add_argument("rows")
    loop.add_argument("--size", help="of a new model, such as tiny")
    loop.add_argument("--left-to-right", action="store_true", help="a new model in which every token predicts the next")
    loop.add_argument("--init", help="a kbert directory, instead of new weights")
    loop.add_argument("--phases", nargs="+", default=["128:1"], metavar="LENGTH:FRACTION")
    loop.add_argument("--batch-size", type=int, default=16, help="of the first phase; others have as many tokens")
    loop.add_argument("--steps", type=int, default=40_000)
    loop.add_argument("--chunk", type=int, default=200, help="steps of a loop, after which held-out rows are scored")
    loop.add_argument("--learning-rates", type=float, nargs="+", default=[1e-3])
    loop.add_argument("--masks", nargs="+", default=["80/10/10"], metavar="MASK/SAME/RANDOM")
    loop.add_argument("--schedule", choices=("stable", "linear"), default="stable")
    loop.add_argument("--warmup", type=float, default=0.05, help="fraction of the steps (default: 0.05)")
    loop.add_argument("--precision", choices=("mixed_bfloat16", "float32"), default="mixed_bfloat16")
    loop.set_defaults(function=train)
    for one in (rows, loop):
        one.add_argument("--output", required=True)
        one.add_argument("--seed", type=int, default=0)
    return parser


def main(argv=None) -> None:
    arguments = make_parser().parse_args(argv)
    try:
        arguments.function(arguments)
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
