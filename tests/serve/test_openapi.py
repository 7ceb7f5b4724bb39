"""The OpenAPI document, taken at its word: no answer is a 500, and each is as declared."""

import subprocess
import sys

import pytest

from .conftest import Served


def test_schemathesis_finds_nothing_that_the_service_answers_with_a_500(runs):
    pytest.importorskip("schemathesis")
    served = Served(runs["words"], runs["single"])
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json",
        "--max-examples", "25", "--seed", "1", "--no-color", "--suppress-health-check", "all",
        "--generation-database", "none", "--exclude-checks", "positive_data_acceptance",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    finally:
        assert served.end() == 0
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    assert not [line for line in served.errors if "rror" in line]
