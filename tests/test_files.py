"""Files that are whole or not there, and what results say of their making."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from qv_env.evaluation.provenance import git_state, package_versions
from qv_env.files import InUseError, held, replacing, write_bytes, write_json, write_text
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


def test_the_temporary_file_is_beside_its_place_and_has_its_suffix(tmp_path):
    with replacing(tmp_path / "model.zip") as temporary:
        assert (temporary.parent, temporary.suffix) == (tmp_path, ".zip")
        assert not temporary.exists()
        temporary.write_bytes(b"zip")
    assert (tmp_path / "model.zip").read_bytes() == b"zip"


def test_files_have_the_usual_permissions(tmp_path):
    write_text(tmp_path / "a.txt", "a")
    (tmp_path / "b.txt").write_text("b")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "b.txt").stat().st_mode


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a.txt"):
        pass
    assert list(tmp_path.iterdir()) == []


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
