"""Several models as one: an ensemble.

Shapes: those of the models.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import keras
from keras import ops

from kbert.keras_compat import set_untracked
from kbert.models.bert_model import BertModel


def average_models(models: Iterable[BertModel] | BertModel) -> BertModel:
    """One model whose outputs are the means of several models' outputs.

    ``logits`` are averaged as probabilities, and returned as logits again. Scores and start and end logits are averaged
    directly.

    Args:
        models: kbert models of one task, with equal inputs and outputs, at least one. They are not copied.

    Returns:
        A `BertModel` with their inputs and outputs, and the first one's ``task``, ``config``, ``pretrained``,
            ``num_labels`` and dtype policy. It has no encoder of its own and cannot be saved. A single model is
            returned itself.

    Raises:
        TypeError: something that is no kbert model.
        ValueError: no model, or models that differ in task, inputs or outputs.

    Source: Devlin et al. 2018, section 4.2, footnote 4: the ensemble is 7 systems with different pre-training
    checkpoints and fine-tuning seeds.

    Example::

        ensemble = average_models([kbert.load_pretrained("runs/squad-0"), kbert.load_pretrained("runs/squad-1")])
    """
    models = list(models) if hasattr(models, "__iter__") else [models]
    for model in models:
        if not isinstance(model, BertModel):
            raise TypeError(f"average_models: `models` must be kbert models. Received: {type(model).__name__}")
    kinds = [_kind(model) for model in models]
    if not models or any(kind != kinds[0] for kind in kinds):
        raise ValueError(f"average_models: expected models of one task, inputs and outputs. Received: {kinds}")
    if len(models) == 1:
        return models[0]
    inputs = {name: keras.Input(x.shape[1:], dtype=x.dtype, name=name) for name, x in models[0].input.items()}
    means = mean_outputs(models, inputs, models[0].multi_label)
    ensemble = BertModel(inputs, means, dtype=models[0].dtype_policy, name="ensemble")
    for name in ("task", "config", "pretrained", "num_labels", "multi_label", "token_outputs"):
        setattr(ensemble, name, getattr(models[0], name))
    set_untracked(ensemble, "members", tuple(models))
    return ensemble


def mean_outputs(
    models: Sequence[keras.Model], inputs: Mapping[str, keras.KerasTensor], is_multi_label: bool = False
) -> dict[str, keras.KerasTensor]:
    """The means of the models' outputs, as `average_models` takes them."""
    outputs = [model(inputs) for model in models]
    values = {name: [ops.cast(output[name], "float32") for output in outputs] for name in outputs[0]}
    return {name: _mean(name, is_multi_label, each) for name, each in values.items()}


def with_each_member(model: BertModel, copy: Callable[[BertModel], BertModel]) -> BertModel:
    """A copy of the model or, of an ensemble, an ensemble of copies."""
    if not model.members:
        return copy(model)
    once = dict.fromkeys(model.members)  # a model may be among them twice
    copies = {member: with_each_member(member, copy) for member in once}
    return average_models([copies[member] for member in model.members])


def _mean(name, is_multi_label, values):
    if name == "logits" and is_multi_label:
        on, off = (ops.logsumexp(ops.stack([-ops.softplus(sign * x) for x in values]), axis=0) for sign in (-1, 1))
        return on - off  # the logarithms of both sums of probabilities
    if name == "logits":
        return ops.logsumexp(ops.stack([ops.log_softmax(x) for x in values]), axis=0) - math.log(len(values))
    return ops.mean(ops.stack(values), axis=0)


def _kind(model):
    outputs = sorted((name, x.shape[1:]) for name, x in model.output.items())
    return model.task, model.multi_label, sorted(model.input), outputs
