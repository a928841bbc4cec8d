"""Ways to damage a file of a directory, each a function of the directory's path."""

from helpers.hf_directory import edit


def cut(name, end):
    """The file up to a byte, counted from its end where it is negative."""
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:end])


def put(name, content):
    """Another content."""
    return lambda path: (path / name).write_bytes(content.encode() if isinstance(content, str) else content)


def put_lines(name, lines):
    return put(name, "".join(f"{line}\n" for line in lines))


def replaced(name, old, new):
    """Other bytes where some stand first."""
    return lambda path: (path / name).write_bytes((path / name).read_bytes().replace(old, new, 1))


def deleted(name):
    return lambda path: (path / name).unlink()


def edited(name, **changes):
    """Other entries of a JSON file; ... removes one."""
    return lambda path: edit(path / name, **changes)
