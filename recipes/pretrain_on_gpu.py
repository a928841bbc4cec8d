"""Pre-train models side by side on one GPU, with JAX: rows, masks and updates are one compiled loop.

    python recipes/pretrain_on_gpu.py rows records --output rows --lengths 128 512 --epochs 6
    python recipes/pretrain_on_gpu.py train rows --init saved_models/kbert-mini/model --phases 128:0.9 512:0.1 \\
        --batch-size 256 --steps 56000 --learning-rates 2e-3 --schedule linear --warmup 0.02 --output runs/mini
    python recipes/pretrain_on_gpu.py models runs/mini --vocabulary rows/vocab.txt

`rows` needs TensorFlow: it writes the tokens of the records and the pairs that kbert draws from them. `train` needs
JAX, Keras and NumPy alone; masks are new at every visit. It trains a model for each of --learning-rates and --masks at
once, and keeps of each mixture of masks the model with the lowest held-out loss at the end. `models` needs TensorFlow
again and makes kbert directories.

`kbert pretrain` trains the same models by `model.fit`. Here no step returns to Python: tiny's steps take less time than
a call. A killed run begins anew.

Shapes: B batch, S sequence, P predictions, M models, n steps of a chunk, R rows.
"""

import argparse
import json
import os
import pathlib
import time

import numpy as np

from kbert.pretraining.run.phases import default_max_predictions
from kbert.pretraining.run.stored_batches import VOCABULARY
from kbert.text.vocabulary import read_vocabulary

COLUMNS = ("a_start", "a_length", "b_start", "b_length", "is_random")  # of a table of pairs
HELD_OUT_TOKENS = 6400 * 128  # that are scored


def write_rows(arguments) -> None:
    """Tokens [t] and tables of pairs of the records, for training and held out."""
    from kbert.corpus.records import Records
    from kbert.pretraining.pairs import max_pair_tokens, sentence_pairs

    records, output = Records(arguments.records), pathlib.Path(arguments.output)
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
    wanted = jnp.clip(jnp.round(0.15 * lengths).astype("int32"), 1, predictions)
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
        mixtures: fractions of masked tokens that become [MASK] or stay [M, 2].
        left_to_right: whether every token predicts the next one.
        stable: whether the rate falls in the last fifth only.
    """

    def __init__(self, model, special_ids, rates, mixtures, left_to_right=False, stable=True):
        import jax
        import jax.numpy as jnp

        from kbert.optim.adamw import AdamW

        self.model, self.special_ids = model, special_ids
        self.left_to_right, self.stable = left_to_right, stable
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


def train(arguments) -> None:
    """Trains, and writes the weights of the best model of each mixture, of fifths of the run, and the history."""
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import jax
    import jax.numpy as jnp
    import keras

    keras.config.set_dtype_policy(arguments.precision)
    rows, output = pathlib.Path(arguments.rows), pathlib.Path(arguments.output)
    mixtures = [[int(part) / 100 for part in mixture.split("/")[:2]] for mixture in arguments.masks]
    rates = [rate for rate in arguments.learning_rates for _ in mixtures]
    vocabulary = read_vocabulary(rows / VOCABULARY)
    special_ids = [vocabulary.index(token) for token in ("[CLS]", "[SEP]", "[MASK]")]
    more = mixtures * len(arguments.learning_rates), arguments.left_to_right, arguments.schedule == "stable"
    loop = Loop(_model(arguments, len(vocabulary)), special_ids, rates, *more)
    tokens, held_out = (jnp.asarray(np.load(rows / f"{word}-tokens.npy")) for word in ("train", "held-out"))
    output.mkdir(parents=True)
    key, step, kept, history, seconds = jax.random.PRNGKey(arguments.seed), 0, {}, [], 0.0
    chunk = min(arguments.chunk, arguments.steps)
    for length, fraction in (phase.split(":") for phase in arguments.phases):
        length, end = int(length), step + round(float(fraction) * arguments.steps / chunk) * chunk
        size = arguments.batch_size * int(arguments.phases[0].split(":")[0]) // length  # as many tokens an update
        table, scored = (jnp.asarray(np.load(rows / f"{word}-{length}.npy")) for word in ("train", "held-out"))
        count = min(scored.shape[1], HELD_OUT_TOKENS // length) // 32 * 32 or scored.shape[1]
        order = jnp.asarray(np.linspace(0, scored.shape[1] - 1, count, dtype="i4").reshape(-1, min(32, count)))
        for first in range(step, end, chunk):
            index = np.arange((first - step) * size, (first - step + chunk) * size) % table.shape[1]
            index, begin = jnp.asarray(index.reshape(chunk, size).astype("i4")), time.monotonic()
            plan = jnp.asarray(first), index, key, float(arguments.steps), arguments.warmup * arguments.steps
            loop.state, loss = loop.train(loop.state, tokens, table, *plan, length=length)
            loss = np.asarray(loss)  # waits
            seconds += time.monotonic() - begin
            scores = np.asarray(loop.evaluate(loop.state, held_out, scored, order, length=length))
            record = {"step": first + chunk, "length": length, "seconds": seconds, "loss": loss.tolist()}
            history.append(record | {"held_out": scores.tolist()})
            print(first + chunk, *(f"{a:.3f} {b:.1%} {c:.1%}" for a, b, c in scores), f"{seconds:.0f} s", flush=True)
            if (first + chunk) * 5 % arguments.steps == 0:
                kept[first + chunk] = [np.asarray(values) for values in loop.state[0]]
        step = end
    kept[step] = [np.asarray(values) for values in loop.state[0]]
    settings = vars(arguments) | {
        "device": jax.devices()[0].device_kind,
        "versions": {"jax": jax.__version__, "keras": keras.__version__},
    }
    for number, mixture in enumerate(arguments.masks):
        best = min(
            range(number, len(rates), len(mixtures)),
            key=lambda one: np.nan_to_num(history[-1]["held_out"][one][0], nan=np.inf),
        )
        name = mixture.replace("/", "-")
        for at, weights in kept.items():
            arrays = {v.path: values[best] for v, values in zip(loop.model.trainable_variables, weights, strict=True)}
            np.savez(output / (f"{name}.npz" if at == step else f"{name}@{at}.npz"), **arrays)
        one = [record | {"loss": record["loss"][best], "held_out": record["held_out"][best]} for record in history]
        told = settings | {"function": None, "learning_rate": rates[best], "history": one}
        (output / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")


def _model(arguments, vocabulary_size):
    import types

    import keras

    from kbert.config import BertConfig
    from kbert.models.pretrainer import BertPretrainer
    from kbert.pretraining.run.new_model import new_model

    if arguments.init is None:
        keras.utils.set_random_seed(arguments.seed)
        new = {"size": arguments.size, "dropout": 0.0, "initializer_stddev": "scaled", "position_embedding": None}
        new |= {"position_initializer": "sinusoidal", "sequence_length": 512, "left_to_right": arguments.left_to_right}
        settings = types.SimpleNamespace(**new, next_sentence=arguments.next_sentence)
        return new_model(settings, vocabulary_size)
    init = pathlib.Path(arguments.init)
    content = json.loads((init / "config.json").read_text())
    config = BertConfig.from_dict(content["architecture"] | {"hidden_dropout": 0.0, "attention_dropout": 0.0})
    model = BertPretrainer(config, next_sentence=arguments.next_sentence, **content["model"])
    model.load_weights(init / "model.weights.h5")
    return model


def write_models(arguments) -> None:
    """A kbert directory beside each file of weights."""
    import kbert
    from kbert.text.tokenizer import BertTokenizer

    for path in sorted(pathlib.Path(arguments.run).glob("*.npz")):
        settings = json.loads((path.parent / f"{path.stem.partition('@')[0]}.json").read_text())
        tokenizer = BertTokenizer(arguments.vocabulary)
        model = _model(argparse.Namespace(**settings), tokenizer.vocabulary_size)
        with np.load(path) as weights:
            for variable in model.trainable_variables:
                variable.assign(weights[variable.path])
        made_by = {"recipe": "pretrain_on_gpu.py", "settings": {k: v for k, v in settings.items() if k != "history"}}
        kbert.save_pretrained(
            model, path.with_suffix(""), tokenizer=tokenizer, made_by=made_by, storage_dtype="float16"
        )
        print(path.with_suffix(""))


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    rows = commands.add_parser("rows")
    rows.add_argument("records")
    rows.add_argument("--lengths", type=int, nargs="+", default=[128])
    rows.add_argument("--epochs", type=int, default=2, help="visits to each document, with new pairs (default: 2)")
    rows.set_defaults(function=write_rows)
    loop = commands.add_parser("train")
    loop.add_argument("rows")
    loop.add_argument("--size", default="tiny")
    loop.add_argument("--init", help="a kbert directory, instead of new weights")
    loop.add_argument("--left-to-right", action="store_true")
    loop.add_argument("--phases", nargs="+", default=["128:1"], metavar="LENGTH:FRACTION")
    loop.add_argument("--batch-size", type=int, default=16, help="of the first phase; others have as many tokens")
    loop.add_argument("--steps", type=int, default=40_000)
    loop.add_argument("--chunk", type=int, default=200, help="steps of a loop, after which held-out rows are scored")
    loop.add_argument("--learning-rates", type=float, nargs="+", default=[1e-3])
    loop.add_argument("--masks", nargs="+", default=["80/10/10"], metavar="MASK/SAME/RANDOM")
    loop.add_argument("--schedule", choices=("stable", "linear"), default="stable")
    loop.add_argument("--warmup", type=float, default=0.05, help="fraction of the steps (default: 0.05)")
    loop.add_argument("--precision", default="mixed_bfloat16")
    loop.set_defaults(function=train)
    models = commands.add_parser("models")
    models.add_argument("run")
    models.add_argument("--vocabulary", required=True)
    models.set_defaults(function=write_models)
    for one in (rows, loop):
        one.add_argument("--output", required=True)
        one.add_argument("--seed", type=int, default=0)
        one.add_argument("--no-next-sentence", dest="next_sentence", action="store_false")
    arguments = parser.parse_args(argv)
    arguments.function(arguments)


if __name__ == "__main__":
    main()
