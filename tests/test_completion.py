"""Tab completion: what a shell asks the command, and what it is answered (docs/completion.md)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "pocketbert"


def complete(line: str) -> list[str]:
    """As bash asks: the line so far, and which word the cursor is in."""
    environment = {
        **os.environ,
        "_POCKETBERT_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    done = subprocess.run([COMMAND], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.split()


@pytest.mark.skipif(not COMMAND.is_file(), reason="the command pocketbert is not installed beside this Python")
def test_commands_and_options_are_completed():
    assert complete("pocketbert ex") == ["export"]
    assert complete("pocketbert export --fo") == ["--format"]
    assert complete("pocketbert train reviews.csv --ep") == ["--epochs"]


@pytest.mark.skipif(not COMMAND.is_file(), reason="the command pocketbert is not installed beside this Python")
def test_the_help_offers_to_install_it():
    done = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, check=True)
    assert "--install-completion" in done.stdout
    assert "--show-completion" in done.stdout
