"""TensorBoards of runs without what takes a sixth of a run of a few steps."""


def curves_alone(set_attribute=setattr):
    """From now on TensorBoards have curves, but neither graphs nor samples of weights.

    Only for tests beside those of inspection, which look at both for every task's model.
    """
    from kbert.inspection import TensorBoard

    set_attribute(TensorBoard, "_write_graphs", lambda self: None)
    set_attribute(TensorBoard, "_samples", lambda self, learning_rate: ())
