"""The original BERT's optimizer and schedule in NumPy, line by line, in float64: what kbert's are held to."""

import re

import numpy as np


def learning_rate(step, peak, warmup_steps, total_steps):
    """optimization.py, create_optimizer: polynomial decay to 0 with power 1, replaced while warming up."""
    decayed = (peak - 0.0) * (1.0 - min(step, total_steps) / total_steps) ** 1.0 + 0.0
    is_warmup = float(step < warmup_steps)
    warmup = peak * (step / warmup_steps) if warmup_steps else decayed
    return (1.0 - is_warmup) * decayed + is_warmup * warmup


def clip_by_global_norm(gradients, clip_norm):
    """tf.clip_by_global_norm."""
    norm = np.sqrt(sum(np.sum(np.square(gradient)) for gradient in gradients))
    return [gradient * clip_norm * min(1.0 / norm, 1.0 / clip_norm) for gradient in gradients], norm


class NumpyAdamW:
    """AdamWeightDecayOptimizer of optimization.py; `weights` is a dict of name -> array, in order."""

    def __init__(
        self,
        weights,
        weight_decay=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        exclude=("LayerNorm", "layer_norm", "bias"),
        bias_correction=False,
    ):
        self.weights = {name: np.array(value, "float64") for name, value in weights.items()}
        self.m = {name: np.zeros_like(value) for name, value in self.weights.items()}
        self.v = {name: np.zeros_like(value) for name, value in self.weights.items()}
        self.weight_decay, self.beta_1, self.beta_2, self.epsilon = weight_decay, beta_1, beta_2, epsilon
        self.exclude, self.bias_correction, self.step = exclude, bias_correction, 0

    def apply(self, gradients, rate):
        self.step += 1
        for (name, weight), gradient in zip(self.weights.items(), gradients, strict=True):
            m = self.beta_1 * self.m[name] + (1.0 - self.beta_1) * gradient
            v = self.beta_2 * self.v[name] + (1.0 - self.beta_2) * np.square(gradient)
            update = m / (np.sqrt(v) + self.epsilon)
            if self.bias_correction:
                update *= np.sqrt(1.0 - self.beta_2**self.step) / (1.0 - self.beta_1**self.step)
            if not any(re.search(pattern, name) for pattern in self.exclude):
                update += self.weight_decay * weight
            self.m[name], self.v[name], self.weights[name] = m, v, weight - rate * update
