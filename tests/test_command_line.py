"""The way into all programs and out of them: arguments, errors, exit statuses, full disks."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qv_env.command_line import (
    Parser,
    Stopped,
    add_workers,
    check_file,
    check_folder,
    error_text,
    guarded,
    integer,
    number,
    one_line,
    path,
    printable,
    run,
    seed,
    shortened,
)

ROOT = Path(__file__).resolve().parents[1]
GUARD = 300  # seconds: only a hanging program ever waits as long
NASTY = "\x1b[2J\n\u202e\x9b31m\r\x00\ud800"
NASTY_SHOWN = r"\x1b[2J\n\u202e\x9b31m\r\x00\ud800"

# ---------------------------------------------------------------------------------------- texts


def test_printable_texts_cannot_steer_the_terminal():
    assert printable(NASTY) == NASTY_SHOWN
    assert printable("10♥ é «a b»") == "10♥ é «a b»"


def test_long_texts_lose_their_middle():
    assert shortened("x" * 600) == "x" * 600
    text = shortened("a" * 3000 + "b" * 2000)
    assert text == "a" * 300 + "[... 4,400 characters ...]" + "b" * 300
    assert shortened("abcdef", 2) == "a[... 4 characters ...]f"


def test_one_line_joins_lines_and_escapes_the_rest():
    assert (
        one_line("  in line 3,\n    column 4:\n  \x1b[1mno\n") == r"in line 3, column 4: \x1b[1mno"
    )
    assert len(one_line("\x1b" * 100_000)) < 3000


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "bad"),
        (ValueError(), "ValueError"),
        (ValueError("a\nb\x07"), r"a b\x07"),
        (FileNotFoundError(2, "No such file", "x.json"), "x.json: No such file"),
        (OSError(2, "No such file", "a\nb\x1b"), r"a\nb\x1b: No such file"),
        (OSError(2, "No such file", b"a\xff"), r"a\udcff: No such file"),
        (OSError(18, "Cross-device link", "a.tmp", None, "a"), "a: Cross-device link"),
        (OSError(9, "Bad file descriptor", 7), "7: Bad file descriptor"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("the folder is in use"), "the folder is in use"),
        (MemoryError(), "out of memory"),
        (MemoryError("Unable to allocate 8 GiB"), "out of memory: Unable to allocate 8 GiB"),
    ],
)
def test_what_errors_say(error, text):
    assert error_text(error) == text


# ------------------------------------------------------------------------------------- arguments


def refusal(kind, text):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        kind(text)
    return str(caught.value)


def test_integers_have_both_limits():
    kind = integer(-3, 20)
    assert [kind(text) for text in ("-3", "0", "+7", "020", "20")] == [-3, 0, 7, 20, 20]
    assert refusal(kind, "-4") == "-4 is not at least -3"
    assert refusal(kind, "21") == "21 is more than 20"
    for text in ("", "1_0", " 1", "1.0", "1e3", "x", "²", "١", "1" * 31, "9" * 5000, "0x1", "--1"):
        assert refusal(kind, text) == f"{text!r} is not an integer in -3..20"


def test_numbers_are_finite_and_have_both_limits():
    assert [number(0, 10)(text) for text in ("0", "1e1", "2.5", "-0")] == [0, 10, 2.5, 0]
    for text in ("nan", "inf", "-inf", "1e999", "-1", "10.5", "", "x", "1" * 400):
        assert refusal(number(0, 10), text) == f"{text!r} is not a number in 0..10"
    above = number(0, 10, above=True)
    assert above("1e-300") == 1e-300
    for text in ("0", "-0", "nan", "11"):
        assert refusal(above, text) == f"{text!r} is not a number above 0, at most 10"


def test_seeds_and_paths():
    assert [seed("0"), seed(str(2**63 - 1))] == [0, 2**63 - 1]
    assert refusal(seed, "-1") == "-1 is not at least 0"
    assert refusal(seed, str(2**63)).endswith("is more than 9223372036854775807")
    assert path("a b/c") == Path("a b/c")
    assert refusal(path, "") == "'' is not a path"
    assert refusal(path, "a\0b") == r"'a\x00b' is not a path"


def test_workers_are_one_option_with_an_older_name():
    parser = Parser("program")
    add_workers(parser, 3, "processes that work", old="--jobs")
    assert parser.read([]).workers == 3
    assert parser.read(["--workers", "0"]).workers == 0
    assert parser.read(["--jobs", "2"]).workers == 2
    text = parser.format_help()
    assert "--workers N" in text
    assert "jobs" not in text
    with pytest.raises(SystemExit):
        parser.read(["--workers", "1025"])


def test_a_usage_error_is_one_short_line(capsys):
    parser = Parser("program", intermixed=True)
    parser.add_argument("--suite", choices=["a", "b"])
    parser.add_argument("words", nargs="*")
    assert parser.read(["x", "--suite", "a", "y"]).words == ["x", "y"]
    for arguments, message in (
        (["--suite", NASTY], f"invalid choice: {NASTY!r}"),
        (["--suite", "é\n"], r"invalid choice: 'é\n'"),
        (["--no\x1b[2J\nne"], r"unrecognized arguments: --no\x1b[2J ne"),
        (["--suite", "z" * 5000], "characters ...]"),
    ):
        assert run(parser, lambda options: 0, arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("program: ")
        assert message in err
        assert err.endswith("(--help lists what there is)\n")
        assert err.count("\n") == 1
        assert err[:-1].isprintable()
        assert len(err) < 1000


def test_help_keeps_paragraphs_and_commands(capsys):
    parser = Parser("program", "First ``a``\nand b.\n\n    program --option  X\n\nThird.\n")
    assert run(parser, lambda options: 0, ["--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "First `a` and b.\n\n    program --option  X\n\nThird.\n" in out


def test_the_body_gets_the_arguments_and_the_command_as_it_was_typed(capsys):
    parser = Parser("python -m program")
    parser.add_argument("file")

    def body(options):
        print(options.file, options.typed)
        return 7

    assert run(parser, body, ["a b"]) == 7
    assert capsys.readouterr().out == "a b python -m program 'a b'\n"


# ------------------------------------------------------------------------------- places to write


def test_files_that_can_be_written_stay_as_they_are(tmp_path):
    old = tmp_path / "old"
    old.write_text("x")
    link = tmp_path / "link"
    link.symlink_to(old)
    for file in (old, link, tmp_path / "new", tmp_path / ("n" * 200)):
        check_file(file)
    assert sorted(tmp_path.iterdir()) == [link, old]
    assert old.read_text() == "x"


def test_files_that_cannot_be_written_are_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    for place, kind in (
        (tmp_path, IsADirectoryError),
        (tmp_path / "no" / "file", FileNotFoundError),
        (file / "file", NotADirectoryError),
        (tmp_path / ("n" * 300), OSError),
    ):
        with pytest.raises(kind) as caught:
            check_file(place)
        assert caught.value.filename == str(place)
    if os.path.isdir("/proc/self"):
        with pytest.raises(OSError, match=re.escape("/proc/self/x")):
            check_file("/proc/self/x")


def test_folders(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    check_folder(tmp_path)
    check_folder(tmp_path / "a" / "b")
    for place in (file, file / "a"):
        with pytest.raises(NotADirectoryError) as caught:
            check_folder(place)
        assert caught.value.filename == str(place)
    assert list(tmp_path.iterdir()) == [file]


# ------------------------------------------------------------------------------------ the way out


class ForeignError(Exception):
    pass


def end(error, **options):
    def work():
        raise error

    return guarded("program", work, **options)


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (ValueError("no such deal"), 2, "no such deal"),
        (
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
            2,
            "'utf-8' codec can't",
        ),
        (FileNotFoundError(2, "No such file", "x"), 2, "x: No such file"),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
        (MemoryError(), 2, "out of memory"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
            2,
            "out of memo",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
        (Stopped("stopped by SIGTERM", signal.SIGTERM), 143, "stopped by SIGTERM"),
        (SystemExit(3), 3, ""),
        (SystemExit(), 0, ""),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
    ],
)
def test_listed_causes_are_one_line_and_a_status(capsys, error, status, told):
    assert end(error) == status
    err = capsys.readouterr().err
    assert err.count("\n") == (told != "")
    assert err.startswith(f"program: {told}" if told else "")


def test_an_allocation_that_fails_is_no_traceback(capsys):
    assert guarded("program", lambda: len(np.zeros(1 << 55))) == 2
    assert capsys.readouterr().err.startswith("program: out of memory: Unable to allocate")


@pytest.mark.parametrize("error", [TypeError, KeyError, RuntimeError, AssertionError, ForeignError])
def test_a_fault_of_the_program_is_not_hidden(error):
    with pytest.raises(error):
        end(error("x"))


def test_a_program_says_which_other_errors_are_bad_input(capsys):
    assert end(ForeignError("no such thing"), errors=(ForeignError,)) == 2
    assert capsys.readouterr().err == "program: no such thing\n"


def test_a_program_says_how_to_go_on(capsys):
    assert end(KeyboardInterrupt(), interrupted="--resume goes on") == 130
    assert capsys.readouterr().err == "program: interrupted; --resume goes on\n"
    command = f"python -m program {'x' * 2000}"
    assert end(Stopped("interrupted", command=command)) == 130
    assert capsys.readouterr().err == f"program: interrupted\nto go on: {command}\n"


def test_the_traceback_of_bad_input_can_be_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("QV_ENV_TRACEBACK", "1")
    assert end(ValueError("no such deal")) == 2
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last)")
    assert err.endswith("\nprogram: no such deal\n")


# A program that prints a lot, waits to be interrupted, or has something to say on stderr.
PROGRAM = """
import signal, sys, time
from qv_env.command_line import guarded

def work():
    if sys.argv[1] == "wait":
        print("ready", flush=True)
        time.sleep(300)
    if sys.argv[1] == "fail":
        print("begun")
        raise ValueError("no such deal")
    for k in range(int(sys.argv[1])):
        print("♥ line", k)
    return 0

sys.exit(guarded("program", work))
"""


def program(argument, redirection="", **environment):
    shell = f'exec "{sys.executable}" -c "$PROGRAM" {argument} {redirection}'
    changes = {"PROGRAM": PROGRAM, "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        ["bash", "-c", shell], capture_output=True, timeout=GUARD, env={**os.environ, **changes}
    )


needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


@needs_full
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("lines", [1, 5000])  # less than a buffer, and many of them
def test_a_full_stdout(lines, unbuffered):
    done = program(lines, ">/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 2
    assert done.stderr == b"program: standard output: No space left on device\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves(unbuffered):
    done = program(100_000, "| head -1; exit ${PIPESTATUS[0]}", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode != 0
    assert (done.stdout, done.stderr) == ("♥ line 0\n".encode(), b"")


def test_output_that_is_closed_or_in_another_encoding():
    done = program(5, ">&-")
    assert (done.returncode, done.stderr) == (0, b"")
    done = program(1, PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"H line 0\n", b"")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_an_stderr_that_takes_nothing(redirection):
    done = program("fail", redirection)
    assert done.returncode != 0
    assert (done.stdout, done.stderr) == (b"begun\n", b"")


def test_an_interrupt():
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "wait"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=GUARD) == (b"", b"program: interrupted\n")
    assert process.returncode == 130


# ----------------------------------------------------------------------------------- all programs


def programs() -> list[str]:
    """Every module that is started by ``python -m``."""
    files = [*ROOT.glob("qv_env/**/*.py"), *ROOT.glob("agents/*.py"), *ROOT.glob("benchmarks/*.py")]
    names = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
        for file in sorted(files)
        if re.search(r'^def main\((.|\n)*^if __name__ == "__main__":$', file.read_text(), re.M)
    ]
    names.remove("benchmarks.peers")  # is started by benchmarks.speed only, and takes no options
    return names


def test_all_programs_are_found():
    assert {"qv_env", "agents.train", "agents.benchmark", "benchmarks.speed"} <= set(programs())
    assert len(programs()) >= 14


@pytest.mark.parametrize("name", programs())
def test_every_program_has_help_and_refuses_what_it_does_not_know(name, capsys):
    module = importlib.import_module("qv_env.__main__" if name == "qv_env" else name)
    for arguments, status in ((["--help"], 0), (["--no-such-option\x1b[2J", "x\ny"], 2)):
        assert module.main(arguments) == status
        out, err = capsys.readouterr()
        if status == 0:
            assert out.startswith(f"usage: python -m {name} ")
            assert err == ""
        else:
            assert out == ""
            assert err.startswith(f"python -m {name}")
            assert err.endswith("\n")
            assert err[:-1].isprintable()


@needs_full
@pytest.mark.parametrize("name", programs())
def test_every_program_ends_well_where_its_output_cannot_go(name):
    command = [sys.executable, "-m", name, "--help"]
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full, open(writer, "wb", closefd=True) as closed:
        processes = [
            subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, cwd=ROOT)
            for out in (full, closed)
        ]
    ends = [(process.communicate(timeout=GUARD)[1], process.returncode) for process in processes]
    told = f"python -m {name}: standard output: No space left on device\n".encode()
    assert ends == [(told, 2), (b"", 141)]
