"""SavedModels in which every variable is stored once."""

import logging
import os
from collections.abc import Callable, Mapping

import keras

_LOGGER = logging.getLogger("kbert")


def write_saved_model(directory: str | os.PathLike, endpoints: Mapping[str, tuple[Callable, list]]) -> None:
    """Writes a SavedModel whose variables are those the endpoints use, each stored once.

    Keras' own `model.export` tracks the model as well, which stores every weight a second time (Keras 3.15, keras issue
    23553), and its `ExportArchive` traces every endpoint twice. Here a function is traced once, and names that share a
    function share its graph. Endpoints alone suffice as long as there are no lookup tables, and kbert has none.

    The directory must not exist, or be empty. `endpoints` are name → (function, input signature: a list of tensor specs
    or of dicts of them). The first is ``serving_default`` as well.
    """
    import tensorflow as tf

    root = tf.Module()
    traced = {}
    signatures = {}
    for name, (function, specs) in endpoints.items():
        specs = keras.tree.map_structure(_tensor_spec, specs)
        if function not in traced:
            traced[function] = tf.function(function, input_signature=specs, autograph=False).get_concrete_function()
        signatures[name] = traced[function]
        setattr(root, name, _calling(traced[function], specs))
    used = {id(variable): variable for concrete in traced.values() for variable in concrete.variables}
    root.variables_used = list(used.values())
    runs_eagerly = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(False)  # else what writes and reads the variables would be part of the graph
    try:
        tf.saved_model.save(root, str(directory), {"serving_default": next(iter(signatures.values())), **signatures})
    finally:
        tf.config.run_functions_eagerly(runs_eagerly)
    _LOGGER.debug("Saved to %s, with the endpoints %s.", directory, ", ".join(endpoints))


def _calling(concrete, specs):
    """A tf.function that calls a traced one. Saving traces it again, so it is kept small."""
    import tensorflow as tf

    return tf.function(lambda *inputs: concrete(*inputs), input_signature=specs)


def _tensor_spec(spec):
    import tensorflow as tf

    return spec if isinstance(spec, tf.TensorSpec) else tf.TensorSpec(spec.shape, spec.dtype, name=spec.name)
