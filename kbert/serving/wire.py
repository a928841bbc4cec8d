"""Protocol buffers by hand, as far as requests to a server need them: no TensorFlow, no generated code."""

import struct

# The most bytes of an answer that is read; gRPC's default of 4 MB is less than one batch of token features.
MAX_MESSAGE = 256 * 2**20

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def encode(*fields):
    """Fields of a message → its bytes.

    Args:
        *fields: pairs (number, value); the value bytes or str (a string, or a message encoded before), or an int >= 0.

    Returns:
        bytes.

    Source: protobuf.dev/programming-guides/encoding.

    Example::

        encode((1, "bert"), (3, "serving_default"))  # a tensorflow.serving.ModelSpec
    """
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [_varint(number << 3 | _VARINT), _varint(value)]
        else:
            value = value.encode() if isinstance(value, str) else value
            parts += [_varint(number << 3 | _BYTES), _varint(len(value)), value]
    return b"".join(parts)


def decode(data):
    """The fields of a message: dict of number → list of values (int, or bytes; fixed-width ones as their bytes).

    Raises:
        ValueError: bytes that are no message.
    """
    fields, position = {}, 0
    while position < len(data):
        key, position = read_varint(data, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, position = read_varint(data, position)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
            if kind == _BYTES:
                size, position = read_varint(data, position)
            if size is None or position + size > len(data):
                raise _broken(data, position)
            value, position = bytes(data[position : position + size]), position + size
        fields.setdefault(number, []).append(value)
    return fields


def text(fields, number, default=""):
    """The last value of a string field."""
    return fields[number][-1].decode("utf-8", "replace") if number in fields else default


def string_map(entries):
    """The entries of a map field with string keys: dict of key → bytes."""
    pairs = (decode(entry) for entry in entries)
    return {text(pair, 1): pair.get(2, [b""])[-1] for pair in pairs}


def floats(values):
    """A repeated float field, packed or not; ValueError for bytes that are none."""
    data = b"".join(values)
    if len(data) % 4:
        raise _broken(data, len(data))
    return struct.unpack(f"<{len(data) // 4}f", data)


def varints(values):
    """A repeated integer field, packed or not."""
    numbers = []
    for value in values:
        if isinstance(value, int):
            numbers.append(value)
            continue
        position = 0
        while position < len(value):
            number, position = read_varint(value, position)
            numbers.append(number)
    return [number - (1 << 64) if number >> 63 else number for number in numbers]  # two's complement


def _broken(data, position):
    return ValueError(f"expected a protocol buffer. Received: {bytes(data[:40])!r}, broken at byte {position}")


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data, position):
    """(value, position after it) of the varint at a position."""
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise _broken(data, position)
        byte = data[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value & (1 << 64) - 1, position
