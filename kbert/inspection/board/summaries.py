"""The values that TensorBoard's plugins read, made without TensorFlow."""

import io
import json
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kbert.inspection.board.scalar_tags import LAYOUT

if TYPE_CHECKING:
    from tensorboard.compat.proto.summary_pb2 import Summary


def scalar(tag: str, value: float, description: str = "") -> "Summary.Value":
    """A point of a curve; runs with one tag share a chart, and the tag's first part is its group."""
    from tensorboard.plugins.scalar.summary import scalar_pb

    return scalar_pb(tag, value, description).value[0]


def histogram(tag: str, values: np.ndarray, description: str = "") -> "Summary.Value":
    """The distribution of the finite values, in 30 buckets."""
    from tensorboard.plugins.histogram.summary import histogram_pb

    return histogram_pb(tag, values[np.isfinite(values)], description=description).value[0]


def text(tag: str, markdown: str, description: str = "") -> "Summary.Value":
    """A text of the Text tab; everything in `markdown` that comes from data must be escaped."""
    from tensorboard.plugins.text.summary import text_pb

    return text_pb(tag, markdown, description).value[0]


def image(tag: str, pixels: np.ndarray, description: str = "") -> "Summary.Value":
    """A picture of the Images tab, uint8 [height, width, 3]."""
    from tensorboard.plugins.image import metadata

    content = [str(size).encode() for size in pixels.shape[1::-1]] + [png_file(pixels)]  # width, height, file
    return _value(tag, content, metadata.create_summary_metadata("", description))


def png_file(pixels: np.ndarray) -> bytes:
    """The content of a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def session_start(settings: Mapping[str, Any]) -> "Summary.Value":
    """The row of a run in the HParams tab, which holds numbers, bools and strings; None is skipped."""
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2

    info = plugin_data_pb2.SessionStartInfo(start_time_secs=time.time())
    for name, value in settings.items():
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, bool):
            info.hparams[name].bool_value = value
        elif isinstance(value, int | float) and math.isfinite(value):
            info.hparams[name].number_value = value
        elif value is not None:
            is_json = isinstance(value, dict | list | tuple)
            text = json.dumps(value, default=str, ensure_ascii=False) if is_json else str(value)
            # The name of a file need not be UTF-8.
            info.hparams[name].string_value = text.encode("utf-8", "backslashreplace").decode()
    return _session(metadata.SESSION_START_INFO_TAG, session_start_info=info)


def session_end() -> "Summary.Value":
    """The end of a run that succeeded, for the HParams tab."""
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    info = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=time.time())
    return _session(metadata.SESSION_END_INFO_TAG, session_end_info=info)


def _session(tag, **info):
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2

    data = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(**info))
    return summary_pb2.Summary.Value(tag=tag, metadata=data, tensor=metadata.NULL_TENSOR)


def custom_scalars() -> "Summary.Value":
    """The charts of the Custom Scalars tab: `LAYOUT`."""
    from tensorboard.plugins.custom_scalar import layout_pb2, metadata

    layout = layout_pb2.Layout()
    for category, charts in LAYOUT.items():
        group = layout.category.add(title=category)
        for title, tags in charts.items():
            group.chart.add(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
    return _value(metadata.CONFIG_SUMMARY_TAG, layout.SerializeToString(), metadata.create_summary_metadata())


def _value(tag, content, metadata):
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.util import tensor_util

    return summary_pb2.Summary.Value(tag=tag, tensor=tensor_util.make_tensor_proto(content), metadata=metadata)
