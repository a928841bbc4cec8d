"""Files whole or not at all, and JSON whose faults are named."""

import ctypes
import errno
import hashlib
import os
import pathlib
import shutil
import signal
import tracemalloc
import types

import pytest
from helpers.wrong_values import wrong_inputs

from kbert import files
from kbert.files import (
    atomic_file,
    check_directory_is_free,
    check_json,
    explain_full_disk,
    is_partial,
    parse_json,
    read_json,
    read_small,
    remove_partial,
    sha256,
    write_directory,
    write_json,
)


def test_what_is_wrong_with_json_is_named():
    wrong_inputs(
        lambda text: parse_json(text, "here"),
        ("{", "here: not JSON .*column 2"),
        ('{\n "a": }', "here, line 2: not JSON"),
        (b"\xff\xfe", "here: "),
        (b'{"a": "\xe9"}', "here: invalid UTF-8 at byte 7"),
        ("[" * 200_000, "here: expected JSON as other programs write it"),
        ("[" + "9" * 10_000 + "]", "here: expected JSON as other programs write it"),
    )


def test_read_json(tmp_path):
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": [1]}')
    assert read_json(tmp_path / "a.json") == {"a": [1]}
    with pytest.raises(ValueError, match="a.json: expected a JSON list. Received: dict"):
        read_json(tmp_path / "a.json", list)
    with pytest.raises(FileNotFoundError, match="b.json"):
        read_json(tmp_path / "b.json")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_cannot_hold_leave_the_file_as_it_was(tmp_path, number):
    path = tmp_path / "metrics.json"
    write_json(path, {"loss": 1.5})
    with pytest.raises(ValueError, match="metrics.json: JSON holds finite numbers only"):
        write_json(path, {"loss": number})
    assert read_json(path) == {"loss": 1.5} and os.listdir(tmp_path) == ["metrics.json"]


def test_the_name_of_a_file_that_is_not_utf8(tmp_path):
    settings = {"corpus": os.fsdecode(b"caf\xe9.txt"), "name": "Zürich"}
    write_json(tmp_path / "settings.json", settings)
    assert read_json(tmp_path / "settings.json") == settings
    write_json(tmp_path / "settings.json", {"name": "Zürich"})
    assert "Zürich" in (tmp_path / "settings.json").read_text(encoding="utf-8")
    check_json("export", card=settings)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.txt"
    with pytest.raises(RuntimeError), atomic_file(path) as file:
        file.write("half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with atomic_file(path) as file:
        file.write("a\r\n")
        assert [is_partial(name) for name in os.listdir(tmp_path)] == [True]
    assert path.read_bytes() == b"a\r\n" and os.listdir(tmp_path) == ["a.txt"]
    assert sha256(path) == hashlib.sha256(b"a\r\n").hexdigest()


def test_a_directory_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "model"
    write_directory(path, lambda place: (place / "a").write_text("1"))

    def fails(place):
        (place / "b").write_text("2")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_directory(path, fails)
    assert [entry.name for entry in tmp_path.rglob("*")] == ["model", "a"]
    write_directory(path, lambda place: (place / "b").write_text("2"))
    assert [entry.name for entry in tmp_path.rglob("*")] == ["model", "b"]


def test_everything_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    """Flushed: every file, its directory, and after the rename the directory that holds the name."""
    flushed, renamed = [], []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(
        os, "fsync", lambda handle: (flushed.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))
    )
    monkeypatch.setattr(os, "rename", lambda old, new: (renamed.append(len(flushed)), rename(old, new)))

    def write(place):
        (place / "sub").mkdir()
        (place / "sub" / "a").write_text("1")

    write_directory(tmp_path / "model", write)
    before, after = flushed[: renamed[0]], flushed[renamed[0] :]
    names = {os.path.basename(path) for path in before}
    assert {"a", "sub"} < names and any(is_partial(name) for name in names) and after == [str(tmp_path)]


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / ".a.json.1234.tmp").write_text("")
    (tmp_path / ".model.1234.tmp.old").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "a.json").write_text("{}")
    remove_partial(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a.json", "model"]


def killed(action):
    """A process that ends with SIGKILL in `action`, a function of a function that kills."""
    child = os.fork()
    if not child:
        action(lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("step", ["first rename", "second rename", "exchange"])
@pytest.mark.parametrize("recover", [remove_partial, None], ids=["remove_partial", "write_directory"])
def test_a_kill_at_any_step_leaves_the_old_directory_or_the_new_one(tmp_path, step, recover):
    path = tmp_path / "model"
    write_directory(path, lambda place: (place / "a").write_text("old"))

    def replace(kill):
        rename = os.rename

        def rename_and_die(old, new):
            rename(old, new)
            if (os.path.basename(new) == "model") == (step == "second rename"):
                kill()

        if step == "exchange":
            shutil.rmtree = kill  # the deletion of the old one, which has the other's name now
        else:
            files._exchange = lambda one, other: False
            os.rename = rename_and_die
        write_directory(path, lambda place: (place / "a").write_text("new"))

    killed(replace)
    if step == "first rename":
        assert not path.exists()
    else:
        assert (path / "a").read_text() == "new"
    if recover is not None:
        recover(tmp_path)
        assert os.listdir(tmp_path) == ["model"]
        assert (path / "a").read_text() == ("old" if step == "first rename" else "new")
    else:
        with pytest.raises(ZeroDivisionError):
            write_directory(path, lambda place: 1 / 0)
        assert (path / "a").read_text() == ("old" if step == "first rename" else "new")


def test_a_file_system_that_cannot_exchange_names(tmp_path, monkeypatch):
    code = [errno.EINVAL]

    def renameat2(*arguments):
        ctypes.set_errno(code[0])
        return -1

    library = types.SimpleNamespace(renameat2=renameat2)
    monkeypatch.setattr(ctypes, "CDLL", lambda *arguments, **options: library)
    write_directory(tmp_path / "model", lambda place: (place / "old").write_text(""))
    write_directory(tmp_path / "model", lambda place: (place / "new").write_text(""))
    assert [entry.name for entry in tmp_path.rglob("*")] == ["model", "new"]
    code[0] = errno.EACCES
    with pytest.raises(PermissionError, match="model"):
        write_directory(tmp_path / "model", lambda place: (place / "newer").write_text(""))
    del library.renameat2  # another system than Linux
    write_directory(tmp_path / "model", lambda place: (place / "newer").write_text(""))
    assert [entry.name for entry in tmp_path.rglob("*")] == ["model", "newer"]


def test_a_file_that_describes_something_is_not_read_beyond_a_limit(tmp_path):
    with open(tmp_path / "config.json", "wb") as file:
        file.truncate(8 << 30)  # sparse
    tracemalloc.start()
    for read in (read_json, read_small):
        with pytest.raises(ValueError, match="config.json: expected at most 67,108,864 bytes. Received: 8,589,934,592"):
            read(tmp_path / "config.json")
    assert tracemalloc.get_traced_memory()[1] < 1 << 28
    tracemalloc.stop()


def test_a_link_to_a_file_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "disk").mkdir()
    for name, old in (("there", "{}"), ("not yet", None)):
        if old is not None:
            (tmp_path / "disk" / name).write_text(old)
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
        write_json(tmp_path / name, {"a": 1})
        assert (tmp_path / name).is_symlink() and read_json(tmp_path / "disk" / name) == {"a": 1}
    assert sorted(os.listdir(tmp_path / "disk")) == ["not yet", "there"]


def test_a_symbolic_link_is_followed_and_nothing_is_left_behind(tmp_path):
    (tmp_path / "disk").mkdir()
    write_directory(tmp_path / "disk" / "model", lambda place: (place / "a").write_text("1"))
    (tmp_path / "model").symlink_to(tmp_path / "disk" / "model")
    write_directory(tmp_path / "model", lambda place: (place / "b").write_text("2"))
    names = sorted(str(entry.relative_to(tmp_path)) for entry in tmp_path.rglob("*"))
    assert names == ["disk", "disk/model", "disk/model/b", "model"]
    assert (tmp_path / "model").is_symlink() and (tmp_path / "model" / "b").read_text() == "2"
    (tmp_path / "new").symlink_to(tmp_path / "disk" / "other")  # to nothing yet
    write_directory(tmp_path / "new", lambda place: (place / "c").write_text("3"))
    assert (tmp_path / "disk" / "other" / "c").exists() and len(list((tmp_path / "disk").iterdir())) == 2


def test_a_directory_that_cannot_take_its_name_leaves_the_old_one(tmp_path, monkeypatch):
    write_directory(tmp_path / "model", lambda place: (place / "a").write_text("1"))
    rename = os.rename
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    monkeypatch.setattr(os, "rename", lambda old, new: 1 / 0 if old.name.endswith(".tmp") else rename(old, new))
    with pytest.raises(ZeroDivisionError):
        write_directory(tmp_path / "model", lambda place: (place / "b").write_text("2"))
    assert [entry.name for entry in tmp_path.rglob("*")] == ["model", "a"]


def test_the_current_directory_is_never_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (".", tmp_path):
        with pytest.raises(FileExistsError, match="the current directory"):
            check_directory_is_free(path, ("*",), overwrite=True)


def test_a_mounted_volume_is_never_replaced(tmp_path, monkeypatch):
    volume = tmp_path / "volume"
    volume.mkdir()
    (tmp_path / "link").symlink_to(volume)
    monkeypatch.setattr(pathlib.Path, "is_mount", lambda path: path == volume)
    for path in (volume, tmp_path / "link"):
        with pytest.raises(FileExistsError, match=f"{path}, a mounted volume; give a directory in it"):
            check_directory_is_free(path, ("*",), overwrite=True)
    check_directory_is_free(volume / "model", ("*",), overwrite=False)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_named_with_what_was_to_be_written(tmp_path, monkeypatch, code):
    def full(handle):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=rf"{tmp_path}/a.json: not written, .*MB are free there\. Make room") as error:
        write_json(tmp_path / "a.json", {})
    assert error.value.errno == code and "\n" not in str(error.value)
    with pytest.raises(OSError, match=rf"{tmp_path}/model: not written, .*: 3.0 MB are needed, .* free"):
        write_directory(tmp_path / "model", lambda place: (place / "a").write_text("1"), needed=3_000_000)
    assert not list(tmp_path.iterdir())


def test_what_libraries_say_of_a_full_disk_is_understood(tmp_path):
    said = "RESOURCE_EXHAUSTED: a/values.data; No space left on device"
    with pytest.raises(OSError, match="step-3: not written, no space left on device"), explain_full_disk("step-3"):
        raise RuntimeError(said)
    with pytest.raises(RuntimeError, match="something else"), explain_full_disk("step-3"):
        raise RuntimeError("something else")
