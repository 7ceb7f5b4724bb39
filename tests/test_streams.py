"""Whatever standard output is (a closed pipe, a full disk, no UTF-8), a command ends without noise; JSON stays JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import run

COMMAND = [sys.executable, "-m", "pocketbert"]
FULL = Path("/dev/full")


def shell(line, **environment):
    """A command line of the shell, in which `pocketbert` is ours."""
    ours = f"pocketbert() {{ '{sys.executable}' -m pocketbert \"$@\"; }}; {line}"
    environment = {**os.environ, **environment}
    return subprocess.run(["bash", "-c", ours], capture_output=True, env=environment, timeout=60)


@pytest.mark.parametrize("arguments", ["models", "models --json", "--help", "tasks", "methods --json"])
def test_a_pipe_that_nobody_reads_any_more_ends_a_command_without_noise(arguments):
    # The reader has gone before the first byte is written.
    done = shell(f"pocketbert {arguments} | (exec 0<&-; sleep 3); echo ${{PIPESTATUS[0]}}")
    assert done.stderr == b""
    assert done.stdout == b"141\n"


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["models", "methods --json"])
def test_a_full_disk_behind_standard_output_is_one_line(arguments):
    done = shell(f"pocketbert {arguments} > {FULL}")
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: ")
    assert done.stderr.endswith(b"No space left on device\n")
    assert done.stderr.count(b"\n") == 1


def test_a_closed_standard_output_is_one_line_and_closed_standard_error_leaves_the_document_alone():
    done = shell("pocketbert methods >&-")
    assert (done.returncode, done.stderr) == (2, b"error: standard output is closed; send it somewhere: > FILE\n")
    done = shell("pocketbert models show nosuch --json 2>&-")
    assert done.returncode == 2
    assert "nosuch" in json.loads(done.stdout)["error"]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(one, marks=SLOW) for one in ("latin-1", "ascii:strict", "cp437"))]
)
def test_a_terminal_without_utf8_gets_escapes_and_a_document_stays_json(encoding, tmp_path):
    (tmp_path / "d.csv").write_text("text,label\n" + "".join(f"good {i},čtyři\nbad {i},😀\n" for i in range(40)))
    told = {"PYTHONIOENCODING": encoding, "POCKETBERT_HOME": str(tmp_path)}
    done = shell(f"pocketbert check '{tmp_path}/d.csv'", **told)
    assert done.returncode == 0, done.stderr
    assert b"\\u010dty" in done.stdout
    done = shell(f"pocketbert check '{tmp_path}/d.csv' --json", **told)
    assert set(json.loads(done.stdout.decode("ascii"))["splits"]["train"]["balance"]) == {"čtyři", "😀"}


def test_a_name_that_is_no_utf8_is_a_line_and_a_document_that_a_strict_parser_reads():
    done = subprocess.run([*COMMAND, "check", b"no\xffsuch.csv", "--json"], capture_output=True)
    assert done.returncode == 2
    assert "no\ufffdsuch.csv" in str(json.loads(done.stdout.decode("utf-8", "strict")))
    assert b"\\udcff" not in done.stdout
    assert b"no\\udcffsuch.csv" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_name_with_line_ends_is_still_one_line():
    done = run("models", "show", "no\nsuch\x1b[2J")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no\\nsuch\\x1b[2J" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"], ["models", "--help"], ["--version"], ["nosuch"], ["models", "show"], [], ["train", "--json=1"],
        ["study", "--nosuch"], ["models", "show", "tiny"], ["models", "show", "nosuch"],
    ],
)  # fmt: skip
def test_with_json_there_is_always_exactly_one_document(arguments):
    done = run(*arguments, "--json")
    assert json.loads(done.stdout), done
    assert "Traceback" not in done.stderr
    done = run("models", "--json", *arguments[1:])
    assert json.loads(done.stdout), done


def test_after_two_dashes_json_is_an_argument():
    done = run("models", "show", "--", "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "--json" in done.stderr


def test_a_fault_of_ours_is_a_traceback_exit_code_1_and_a_document(tmp_path):
    program = """
import sys
from pocketbert import catalog
from pocketbert.cli import main
def broken():
    print("half a table")
    raise RuntimeError("ours")
catalog.list_models = broken
sys.argv = ["pocketbert", "models", "--json"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert json.loads(done.stdout)["error"] == "RuntimeError: ours"
