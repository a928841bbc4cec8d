"""This machine's speed in matrix products, and the fraction of it that a model reaches.

Shapes: B batch, S sequence, H hidden, A heads, D head width, F intermediate, P predictions, V vocabulary.
"""

from typing import NamedTuple

from benchmarks.peers import race, summary
from kbert.training.flops import device_name, matmul_flops, matmul_peak, matmul_speed, nominal_peak


class Product(NamedTuple):
    """A matrix product of a model: what it computes, how often in a step, and the shapes of its factors."""

    name: str
    times: int
    left: tuple
    right: tuple
    transpose: tuple = (False, False)


def model_products(config, batch_size, sequence_length, predictions=0) -> list[Product]:
    """The products of a forward pass, those that `kbert.training.flops` counts.

    Args:
        batch_size, sequence_length: B and S.
        predictions: P; 0 for an encoder without the masked-LM head.
    """
    tokens = batch_size * sequence_length
    heads = config.num_heads
    hidden = config.hidden_dim
    inner = config.intermediate_dim
    layers = config.num_layers
    width = hidden // heads
    each = (batch_size, heads, sequence_length, width)  # of query, key and value
    probs = (batch_size, heads, sequence_length, sequence_length)
    products = [
        Product("query, key, value, attention output", 4 * layers, (tokens, hidden), (hidden, hidden)),
        Product("attention scores", layers, each, each, (False, True)),
        Product("sum over values", layers, probs, each),
        Product("intermediate", layers, (tokens, hidden), (hidden, inner)),
        Product("feed-forward output", layers, (tokens, inner), (inner, hidden)),
    ]
    if predictions:
        masks = (batch_size * predictions, hidden)
        products += [
            Product("masked-LM transform", 1, masks, (hidden, hidden)),
            Product("vocabulary", 1, masks, (config.vocabulary_size, hidden), (False, True)),
        ]
    return products


def with_gradients(products) -> list[Product]:
    """The products, and those of the gradients of their factors."""
    found = []
    for name, times, left, right, (_, right_transposed) in products:
        columns = right[-2] if right_transposed else right[-1]
        result = (*left[:-1], columns)
        of_right = (result, left) if right_transposed else (left, result)  # in the form in which it is stored
        found += [
            Product(name, times, left, right, (False, right_transposed)),
            Product(f"{name}, gradient of the left factor", times, result, right, (False, not right_transposed)),
            Product(f"{name}, gradient of the right factor", times, *of_right, (True, False)),
        ]
    return found


class PeakFractions:
    """The peak of square products, the speed of a model's own products, and what a benchmark reaches of both.

    Measure before and after the benchmark: each speed is the best that was seen.
    """

    def __init__(self, products, precision):
        self.precision, self._products = precision, products
        self.peak, self.speeds = 0.0, [0.0] * len(products)

    def measure(self, seconds):
        """Measures the square products for half of the time, and those of the model for the other half."""
        self.peak = max(self.peak, matmul_peak(self.precision, seconds=seconds / 2))
        for i, (_, _, left, right, transpose) in enumerate(self._products):
            time = seconds / 2 / len(self._products)
            speed = matmul_speed(left, right, self.precision, transpose=transpose, seconds=time)
            self.speeds[i] = max(self.speeds[i], speed)

    def model_speed(self) -> float:
        """The speed of all products of the model one after the other, each at the best that was seen, in FLOP/s."""
        work = [times * matmul_flops(*factors) for _, times, *factors in self._products]
        return sum(work) / sum(flops / speed for flops, speed in zip(work, self.speeds, strict=True))

    def by_product(self) -> dict:
        """The speed of each product, in GFLOP/s."""
        return {product.name: speed / 1e9 for product, speed in zip(self._products, self.speeds, strict=True)}

    def summary(self, gflops_per_second=None) -> dict:
        """The fields of a benchmark's result.

        Args:
            gflops_per_second: float, the speed of the benchmark; None: without fractions.
        """
        peak = self.peak / 1e9
        own = self.model_speed() / 1e9
        device = device_name()
        result = {"matmul_peak_gflops_per_second": peak, "model_matmul_gflops_per_second": own, "device": device}
        if gflops_per_second is not None:
            result |= {
                "fraction_of_matmul_peak": gflops_per_second / peak,
                "fraction_of_model_matmul": gflops_per_second / own,
            }
            if nominal := nominal_peak(device, self.precision):
                result["model_flops_utilisation"] = gflops_per_second * 1e9 / nominal
        return result


def race_at_peak(runners, settings, products, flops_per_token) -> dict:
    """Measures several systems in turn, and the peak before and after them.

    Args:
        runners: name → runner, see `benchmarks.peers.race`; one is "kbert".
        products: list of `Product`, those of a unit of work.
        flops_per_token: number, operations of that work.

    Returns:
        dict of `benchmarks.peers.summary`, GFLOP/s, its fraction of the peak and of the products, and the settings.
    """
    fractions = PeakFractions(products, settings.precision)
    fractions.measure(settings.seconds)
    result = summary(race(runners, settings.seconds, settings.rounds))
    fractions.measure(settings.seconds)
    speed = result["tokens_per_second"] * flops_per_token / 1e9
    return result | {"gflops_per_second": speed} | fractions.summary(speed) | settings.of_model()


def peak(settings):
    """The peak of matrix products, and the speed of each product of a training step and of its gradients."""
    config = settings.config()
    settings.hardware()
    products = model_products(config, settings.batch_size, settings.sequence_length, settings.max_predictions)
    fractions = PeakFractions(with_gradients(products), settings.precision)
    for _ in range(settings.rounds):
        fractions.measure(settings.seconds)
    return fractions.summary() | {"products_gflops_per_second": fractions.by_product()} | settings.of_model()
