"""Files that are whole or not there, and what results say of their making."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qv_env.evaluation.provenance import git_state, package_versions
from qv_env.files import (
    InUseError,
    check_writable,
    held,
    is_temporary,
    replacing,
    temporary_file,
    write_bytes,
    write_json,
    write_text,
)
from qv_env.folders import is_unused, listed, sweep, taken
from tests.marks import holds_folders


def test_what_was_written_is_there_and_nothing_else(tmp_path):
    write_bytes(tmp_path / "a.bin", b"\x00\r\n")
    write_text(tmp_path / "b.txt", "é ♠\r\n")
    write_json(tmp_path / "c.json", {"name": "é", "n": [1, None]})
    assert (tmp_path / "a.bin").read_bytes() == b"\x00\r\n"
    assert (tmp_path / "b.txt").read_bytes() == "é ♠\r\n".encode()
    assert json.loads((tmp_path / "c.json").read_text("utf-8")) == {"name": "é", "n": [1, None]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bin", "b.txt", "c.json"]


def test_an_old_file_is_replaced(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "a long old text")
    write_text(str(path), "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_failing_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_text(path, "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "old")]


def test_the_content_is_on_disk_before_it_has_the_name(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("sync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("replace"), replace(a, b)))
    write_text(tmp_path / "a.txt", "text")
    assert order[:2] == ["sync", "replace"]


def test_the_temporary_file_is_beside_its_place_hidden_and_empty(tmp_path):
    with replacing(tmp_path / "model.zip") as temporary:
        assert temporary.parent == tmp_path
        assert is_temporary(temporary.name)
        assert temporary.name.startswith(".")
        assert (temporary.suffix, temporary.read_bytes()) == (".tmp", b"")
        temporary.write_bytes(b"zip")
    assert (tmp_path / "model.zip").read_bytes() == b"zip"


def test_names_as_long_as_the_file_system_takes_them(tmp_path):
    for length in (244, 245, 255):
        path = tmp_path / ("n" * (length - 5) + ".json")
        check_writable(path)
        write_text(path, "text")
        assert path.read_text() == "text"
    long = tmp_path / ("n" * 256)
    for write in (check_writable, lambda path: write_text(path, "text")):
        with pytest.raises(OSError, match="too long") as caught:
            write(long)
        assert caught.value.filename == str(long)
    assert len(list(tmp_path.iterdir())) == 3


def test_links_are_followed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old.txt").write_text("old")
    for target in ("old.txt", "new.txt"):
        link = tmp_path / f"to-{target}"
        link.symlink_to(tmp_path / "a" / target)
        write_text(link, "text")
        assert link.is_symlink()
        assert (tmp_path / "a" / target).read_text() == "text"
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(OSError, match="symbolic links") as caught:
        write_text(circle, "text")
    assert caught.value.filename == str(circle)
    assert circle.is_symlink()


def test_errors_name_the_file(tmp_path, monkeypatch):
    for path in (tmp_path / "none" / "a.txt", tmp_path):
        for write in (check_writable, lambda path: write_text(path, "text")):
            with pytest.raises(OSError, match=rf"\[Errno \d+\] .*: '{path}'$") as caught:
                write(path)
            assert caught.value.filename == str(path)

    def full(path, data):
        raise OSError(28, "No space left on device")  # as a write says it

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/a\.txt'$") as caught:
        write_text(tmp_path / "a.txt", "text")
    assert (caught.value.errno, caught.value.filename2) == (28, None)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_other_files_keep_their_names(tmp_path):
    def read_another():
        with replacing(tmp_path / "a.txt"):
            (tmp_path / "missing").read_bytes()

    with pytest.raises(FileNotFoundError) as caught:
        read_another()
    assert caught.value.filename == str(tmp_path / "missing")
    with pytest.raises(OSError, match=r"^the writer says why$"), replacing(tmp_path / "a.txt"):
        raise OSError("the writer says why")


def test_files_have_the_usual_permissions(tmp_path):
    write_text(tmp_path / "a.txt", "a")
    (tmp_path / "b.txt").write_text("b")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "b.txt").stat().st_mode


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    empty = pytest.raises(FileNotFoundError, match="nothing was written")
    with empty, replacing(tmp_path / "a.txt"):
        pass
    assert list(tmp_path.iterdir()) == []
    write_text(tmp_path / "empty.txt", "")
    assert (tmp_path / "empty.txt").read_bytes() == b""


def test_values_without_a_json_form_are_refused(tmp_path):
    for value in (float("nan"), {1, 2}):
        with pytest.raises((ValueError, TypeError)):
            write_json(tmp_path / "a.json", value)
    assert list(tmp_path.iterdir()) == []


def test_versions_name_what_results_depend_on():
    versions = package_versions()
    assert {"python", "qv-env", "gymnasium", "numpy", "numba", "scipy"} <= set(versions)
    assert all(versions.values())


def test_git_state_of_a_checkout(tmp_path):
    def git(*arguments):
        name = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path, *name, *arguments], check=True, capture_output=True)

    assert git_state(tmp_path) == (None, None)  # no checkout
    git("init")
    assert git_state(tmp_path) == (None, None)  # no commit yet
    git("commit", "--allow-empty", "-m", "first")
    commit, dirty = git_state(tmp_path)
    assert (len(commit), dirty) == (40, False)
    (tmp_path / "new.txt").write_text("new")
    assert git_state(tmp_path) == (commit, True)
    (tmp_path / "folder").mkdir()
    assert git_state(tmp_path / "folder") == (None, None)  # inside somebody else's checkout


HOLDER = """
import sys
from qv_env.files import held
with held(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@holds_folders
def test_a_folder_is_held_until_the_process_ends_whatever_ends_it(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InUseError, match=rf"^{tmp_path} is in use by another process$"):
            held(tmp_path).__enter__()
        holder.kill()
    with held(tmp_path):
        assert list(tmp_path.iterdir()) == []


@holds_folders
def test_a_folder_is_let_go_after_an_error(tmp_path):
    with pytest.raises(KeyError), held(tmp_path):
        raise KeyError
    with held(str(tmp_path)):
        pass
    with pytest.raises(FileNotFoundError), held(tmp_path / "missing"):
        pass


# --------------------------------------------------------------------------------------- folders

WRITER = """
import os, signal, sys
from qv_env.files import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print(temporary, flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@holds_folders
def test_what_a_kill_left_is_swept_and_what_is_being_written_stays(tmp_path):
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "a.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with writer:
        temporary = Path(writer.stdout.readline().strip())
        with temporary_file(tmp_path) as mine:
            sweep(tmp_path)
            assert sorted(tmp_path.iterdir()) == sorted([temporary, mine])
        writer.stdin.close()
    assert temporary.read_text() == "half"
    others = [".a.tmp", "a.tmp", ".0123456789abcdef.tmp.json", ".0123456789ABCDEF.tmp"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / ".0123456789abcdef.tmp").mkdir()
    sweep(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {*others, ".0123456789abcdef.tmp"}
    sweep(tmp_path / "missing")


@holds_folders
def test_a_folder_is_taken_by_one_and_swept(tmp_path):
    folder = tmp_path / "new" / "folder"
    with taken(folder, "inner", mode=0o700):
        assert folder.stat().st_mode & 0o777 == 0o700
        with pytest.raises(InUseError):
            taken(folder).__enter__()
        (folder / "inner").mkdir()
        for place in (folder, folder / "inner"):
            (place / ".0123456789abcdef.tmp").touch()
    with taken(folder):
        assert [p.name for p in folder.iterdir()] == ["inner"]
        assert len(list((folder / "inner").iterdir())) == 1
    with taken(folder, "inner"):
        assert list((folder / "inner").iterdir()) == []


def test_what_counts_as_unused(tmp_path):
    folder = tmp_path / "folder"
    assert is_unused(folder)
    (folder / "a" / "b").mkdir(parents=True)
    assert is_unused(folder)
    (folder / "a" / ".0123456789abcdef.tmp").touch()
    assert is_unused(folder)
    (folder / "a" / "b" / ".hidden").touch()
    assert not is_unused(folder)
    with pytest.raises(NotADirectoryError):
        is_unused(folder / "a" / "b" / ".hidden")


def test_hidden_and_temporary_files_are_not_listed(tmp_path):
    for name in ("b.json", "a.json", ".c.json", ".d.0123abcd.tmp.json", "e.txt", "f.JSON"):
        (tmp_path / name).touch()
    assert listed(tmp_path) == [tmp_path / "a.json", tmp_path / "b.json"]
    assert listed(str(tmp_path), ".txt") == [tmp_path / "e.txt"]
    with pytest.raises(FileNotFoundError):
        listed(tmp_path / "missing")
