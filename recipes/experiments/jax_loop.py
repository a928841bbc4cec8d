"""What recipes/pretrain_on_gpu.py does: models that train side by side in one compiled loop of JAX.

Shapes: B batch, S sequence, P predictions, M models, R rows of a table, n steps of a call, t tokens.

A table [5, R] int32 has, of each row, start and length of its first and of its second segment in the tokens [t], and
whether the second is random; `recipes/gpu_rows.py` writes it.
"""

import json
import pathlib

import jax
import jax.numpy as jnp
import keras
import numpy as np

from kbert.config import default_max_predictions
from kbert.files import write_directory, write_json
from kbert.optim.adamw import AdamW
from kbert.pipelines.settings import ModelSettings
from kbert.pretraining.run.course import plan_phases
from kbert.pretraining.run.options import NewModel
from kbert.pretraining.run.starting_model import Start, make_new_model
from kbert.pretraining.run.stored_batches import stored_model
from kbert.versions import versions
from kbert.weights.formats import huggingface
from kbert.weights.provenance import describe_maker

HELD_OUT_TOKENS = 6400 * 128  # that are scored


def lay_out(tokens, rows, length, next_sentence, cls_id, sep_id):
    """[CLS] A [SEP] B [SEP] of rows of a table: token ids and segments int32 [B, S], padding mask bool [B, S]."""
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
    following = token_ids[:, 1 : predictions + 1]
    is_real = is_candidate[:, 1 : predictions + 1]
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
        self.model, self.special_ids = model, special_ids
        self.left_to_right = model.config.causal
        self.stable = stable
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
        next_sentence = self.model.next_sentence
        predictions = default_max_predictions(length, 0.15, self.left_to_right)
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
        losses = self.model.default_loss()
        weight = {"mlm_logits": weights}
        total = sum(loss(labels[name], outputs[name], weight.get(name)) for name, loss in losses.items())
        return total, (outputs, others)

    def _train(self, state, tokens, table, first, order, key, steps, warmup, length):
        """n updates on the rows `order` [n, B]: the state and the mean losses [M]."""

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

        def score(state, mixture, rows, key):
            batch = self._batch(tokens, rows, key, mixture, length)
            outputs = self._loss(state[0], state[1], batch, False)[1][0]
            logits = outputs["mlm_logits"]
            labels = batch[1]["mlm_logits"]
            weights = batch[2]
            losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)[..., 0]
            pairs = outputs["nsp_logits"].argmax(-1) == rows[4] if self.model.next_sentence else jnp.zeros(1)
            right = weights * (logits.argmax(-1) == labels)
            return jnp.stack([(weights * losses).sum(), right.sum(), weights.sum(), pairs.sum()])

        def step(total, index):
            key = jax.random.fold_in(jax.random.PRNGKey(0), index[0])  # the same masks in every evaluation
            return total + jax.vmap(score, (0, 0, None, None))(state, self.mixtures, table[:, index], key), None

        total, _ = jax.lax.scan(step, jnp.zeros((len(self.rates), 4)), order)
        return jnp.stack([total[:, 0] / total[:, 2], total[:, 1] / total[:, 2], total[:, 3] / order.size], 1)


def read_plan(
    rows, phases: list[tuple[int, float]], batch_size: int, steps: int, chunk: int
) -> list[tuple[int, int, int]]:
    """(length, rows of an update, last step) of each phase; updates of all phases have as many tokens."""
    plan = []
    fraction = 0.0
    begin = 0
    read = plan_phases(phases, batch_size)
    for length, part, *_ in read:
        fraction += part
        size = batch_size * read[0][0] // length
        end = round(fraction * steps)
        if size < 1 or end == begin or end % chunk:
            raise ValueError(
                f"pretrain_on_gpu: expected phases of whole chunks of {chunk} steps, with a row an update or more. "
                f"Received: {phases}, {steps} steps of {batch_size} rows"
            )
        for word in ("train", "held-out"):
            if not (rows / f"{word}-{length}.npy").is_file():
                raise ValueError(f"{rows} has no rows of {length} tokens: gpu_rows.py writes some: --lengths {length}")
        plan.append((length, size, end))
        begin = end
    return plan


def read_mixture(text: str) -> list[float]:
    """The fractions of [MASK] and of the same token in a mixture such as 80/10/10."""
    parts = [int(part) if part.isdecimal() else -1 for part in text.split("/")]
    if len(parts) != 3 or min(parts) < 0 or sum(parts) != 100:
        raise ValueError(f"pretrain_on_gpu: expected `masks` of three percentages that add up to 100. Received: {text}")
    return [part / 100 for part in parts[:2]]


def first_model(about, vocabulary, init, size, left_to_right: bool, seed: int):
    """The model that all begin as: that of `init`, or a new one with the preset "small-budget"."""
    if init is not None:
        if left_to_right or size is not None:
            raise ValueError(
                "pretrain_on_gpu: `init` has its own size and direction. Received: `size` or `left_to_right` as well"
            )
        no_dropout = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
        return stored_model(init, about["next_sentence"], vocabulary, about["tokenizer"], no_dropout)
    keras.utils.set_random_seed(seed)
    new = NewModel(initializer_stddev="scaled", position_initializer="sinusoidal")
    start = Start(None, size, None, lowercase=True, dropout=0.0, new_model=new, seed=seed)
    return make_new_model(
        start,
        vocabulary,
        next_sentence=about["next_sentence"],
        left_to_right=left_to_right,
        sequence_length=max(about["lengths"]),
    )


def evaluation_order(rows: int, length: int):
    """The held-out rows that are scored, spread over all of them: [n, B]."""
    size = min(32, rows)
    count = min(rows, HELD_OUT_TOKENS // length) // size * size
    return jnp.asarray(np.linspace(0, rows - 1, count, dtype="i4").reshape(-1, size))


def write_models(run: pathlib.Path, loop: Loop, kept, history, best: int, vocabulary, settings, rows) -> None:
    """A run directory of one mixture: model/, history.jsonl, a folder for each fifth, and metrics.json of the end.

    Args:
        run: new directory.
        loop: with the model.
        kept: {step: the trainable weights of all models}.
        history: of each chunk: step, length, seconds, losses [M] and held-out scores [M, 3].
        best: number of the model that is written.
        vocabulary: of the rows.
        settings: of the run.
        rows: what rows.json says.
    """
    run.mkdir()
    model = loop.model
    before = 0.0
    lines = []
    names = ("seconds", "loss", "val_mlm_cross_entropy", "val_mlm_accuracy", "val_nsp_accuracy")
    for step, length, seconds, loss, scores in history:
        values = dict(zip(names, (seconds - before, loss[best], *scores[best]), strict=True))
        lines.append({"step": step, "sequence_length": length} | {name: float(x) for name, x in values.items()})
        before = seconds
    (run / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    made_by = {"recipe": "pretrain_on_gpu.py", "versions": {**versions(), "jax": jax.__version__}}
    made_by |= {"settings": settings | {"device": jax.devices()[0].device_kind, "init": None}}
    made_by |= {"inputs": {"rows": rows}}
    if settings["init"] is not None:
        made_by["inputs"]["init"] = {
            "name": pathlib.Path(settings["init"]).name,
            "made_by": describe_maker(settings["init"]),
        }
    last = {name.removeprefix("val_"): value for name, value in lines[-1].items() if name.startswith("val_")}
    stored = ModelSettings(task=model.task, sequence_length=lines[0]["sequence_length"], tokenizer=rows["tokenizer"])
    end = lines[-1]["step"]
    for step, weights in kept.items():
        for variable, values in zip(model.trainable_variables, weights, strict=True):
            variable.assign(values[best])
        metrics = {"steps": step, "minutes": history[-1][2] / 60, "parameters": model.count_params()}
        metrics |= last if step == end else {}
        made = made_by | {"metrics": metrics}

        def write(partial, made=made):
            huggingface.write(partial, model, stored, vocabulary, made_by=made, storage_dtype="float16")

        write_directory(run / ("model" if step == end else f"model@{step}"), write)
    write_json(run / "metrics.json", metrics)  # last: the run is finished
    print(run)
