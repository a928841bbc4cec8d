"""The names in kbert's own files: the paths of the variables, also for tasks from outside kbert."""

from kbert.weights.formats.name_table import NameTable, TensorName, group_by_layer
from kbert.weights.formats.variables import VARIABLES, all_variables, numbered


class KbertNames(NameTable):
    """Every variable has its own path as its name."""

    def __init__(self):
        super().__init__("kbert", names={})

    def find(self, variable):
        path, _ = numbered(variable)
        dims = VARIABLES.get(path) or all_variables().get(path)
        return None if dims is None else TensorName(variable, dims)

    def layer_variables(self):
        return group_by_layer(all_variables())


NAMES = KbertNames()
