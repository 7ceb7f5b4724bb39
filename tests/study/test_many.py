"""2,000 runs in a store: listing, resuming and reporting stay quick and small."""

import json
import os
import subprocess
import sys
import time

import pytest

from study.conftest import run


def timed(*arguments, home):
    """(seconds, peak memory in bytes, standard output) of a command and its children."""
    script = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run([sys.executable, '-m', 'pocketbert', *sys.argv[1:]], capture_output=True, text=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        "print(done.stdout, end='')\n"
        "sys.stderr.write(done.stderr)\n"
        "sys.exit(done.returncode)\n"
    )
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "POCKETBERT_HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr
    memory, _, out = done.stdout.partition("\n")
    return time.perf_counter() - started, int(memory) * 1024, out


@pytest.mark.slow
def test_two_thousand_runs_are_listed_resumed_and_reported_in_seconds(tmp_path, reviews):
    study = ["study", reviews, "--methods", "random", "--seeds", "2000", "--folds", "0", "--out", tmp_path / "study"]
    run(*study, home=tmp_path / "home", code=0)
    (tmp_path / "study" / "index.json").unlink()
    for what in (["runs", tmp_path / "study", "--json"], ["runs", tmp_path / "study", "--json"], [*study, "--json"]):
        seconds, memory, out = timed(*what, home=tmp_path / "home")
        print(f"{what[0]}: {seconds:.1f} s, {memory / 2**20:.0f} MB")
        assert seconds < 10
        assert memory < 500 * 2**20
        content = json.loads(out)
        assert len(content["runs"] if what[0] == "runs" else content["rows"][0]["seeds"]) >= 2000
