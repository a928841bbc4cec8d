"""What a part of a batch must know of the whole one, so that its loss is a share of the whole batch's."""

import dataclasses

from keras import ops


@dataclasses.dataclass(frozen=True)
class WholeBatch:
    """What a micro-batch of a replica must know of the whole batch, of all replicas.

    Attributes:
        weight: float32 [], its sum of weights.
        micro_batches: int, into how many a replica divides its rows.
        rows: float32 [], the rows of an average replica, as a multiple of this one's.
    """

    weight: object
    micro_batches: int
    rows: object

    def share(self, total, epsilon):
        """The loss of a micro-batch: the mean of its gradient over micro-batches is the whole batch's.

        The mean of its value is the whole batch's too, where Keras weighs the replicas' values with their rows.
        """
        share = self.micro_batches * ops.divide_no_nan(total, self.weight + epsilon)
        return share + ops.stop_gradient(share * (self.rows - 1.0))
