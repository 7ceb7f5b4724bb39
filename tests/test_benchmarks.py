"""The benchmarks count and report rightly; how fast things are is for `make bench` to say."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import REPOSITORY

from pocketbert.config import SHAPES, Config


@pytest.fixture(autouse=True)
def _repository_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY))


def run(name, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_simulations_of_intervals_and_tests_run():
    told = run("coverage", "--quick")
    assert "differences called detectable are found" in told


@pytest.mark.slow
def test_steps_of_adapters_are_timed_and_many_of_them_share_an_encoder():
    told = run("adapters", "speed", "--sizes", "tiny", "--rounds", 1, "--steps", 1, "--threads", 1)
    assert "pfeiffer, top 1 of 2, lower ones cached" in told
    told = run("adapters", "memory", "--model", "pocket-tiny", "--count", 3, "--threads", 1)
    assert "predictions equal to each alone: yes" in told


@pytest.mark.slow
@pytest.mark.parametrize("name", ["speed", "scaling", "pretraining"])
def test_every_benchmark_runs_and_gives_numbers(name, data, tmp_path):
    """At toy scale: it works, or it does not; the numbers mean nothing."""
    pytest.importorskip("transformers")
    told = run(name, "--quick", "--json", tmp_path / "out.json", POCKETBERT_DATA=str(data))
    assert re.search(r"[0-9]", told)
    assert json.loads((tmp_path / "out.json").read_text())


@pytest.mark.slow
def test_two_records_of_one_version_are_the_same(tmp_path):
    run("unchanged", "record", tmp_path / "before.json")
    assert "nothing changed: 40 results" in run("unchanged", "compare", tmp_path / "before.json")


def test_useful_floating_point_of_one_layer_is_the_hand_count():
    from benchmarks.flops import layer_forward, sentence_forward, training_flops

    config = Config(vocabulary=10, width=4, layers=1, heads=2, inner=8, positions=8)
    # 3 tokens, width 4. Q, K and V: 3 products of (3x4)(4x4), 96 each. Scores and mix: 2 heads of (3x2)(2x3), 36 each,
    # twice. Output: 96. Feed-forward: (3x4)(4x8) and back, 192 each.
    assert layer_forward(config, 3) == 3 * 96 + 2 * (2 * 36) + 96 + 2 * 192
    # The first token alone: Q 32, K and V 96 each, 2 heads of (1x2)(2x3), 12 each, twice, output 32, (1x4)(4x8) twice.
    assert layer_forward(config, 3, only_first=True) == 32 + 2 * 32 + 2 * (2 * 24) + 32 + 2 * 64
    # The pooler is (1x4)(4x4), the head (1x4)(4x2); backward costs twice the forward.
    assert sentence_forward(config, 3, only_cls=False) == layer_forward(config, 3) + 32 + 16
    assert training_flops(config, [3, 3]) == 2 * 3 * sentence_forward(config, 3)


def test_counted_floating_point_is_what_torch_counts_for_a_real_network_without_padding():
    from torch.utils.flop_counter import FlopCounterMode

    from benchmarks.flops import sentence_forward
    from pocketbert.dropout import set_dropout
    from pocketbert.encoder import Encoder
    from pocketbert.heads import make_head
    from pocketbert.tokenizer import Encoded
    from pocketbert.training.network import Network

    config = SHAPES["tiny"]
    rows = Encoded(np.arange(1, 15, dtype=np.int32), np.array([0, 7, 14]), np.array([7, 7]), np.zeros(2), 0, False)
    for only_cls in (True, False):
        heads = {"task": make_head("linear", config.width, 2)}
        network = Network(Encoder(config), heads, "pooler", only_cls=only_cls)
        set_dropout(network.heads, 0.0)
        with FlopCounterMode(display=False) as counter:
            network.train()(rows.tensors(), "task")
        assert counter.get_total_flops() == 2 * sentence_forward(config, 7, only_cls=only_cls)


def test_the_rounds_of_our_side_are_the_epoch_each_batch_once(tmp_path):
    from benchmarks.ours import Training

    training = Training.__new__(Training)
    training.batches = [np.array([i]) for i in range(23)]
    training.rounds, training.steps = 5, 23 // 5
    seen = [int(rows[0]) for number in range(5) for rows in training.share(number)]
    assert len(seen) == len(set(seen)) == 20


def test_a_page_gets_the_numbers_between_its_marks_and_keeps_the_rest(tmp_path):
    from benchmarks.report import END, START, machine_facts, write_section

    line = {"what": "tiny", "unit": "examples/s", "theirs": 100.0, "ours": 450.0, "ratio": 4.5, "note": ""}
    row = {"shape": "tiny", "who": "pocketbert", "precision": "float32", "mflop_per_example": 9.0, "gflops": 20.0}
    results = {
        "machine": machine_facts(2),
        "quick": False,
        "seconds": 1.0,
        "comparisons": [line | {"goal": 4.0, "ratio_range": [4.4, 4.6]}],
        "ideas": {"tiny": [{"idea": "all off", "examples_per_second": 100.0, "times": 1.0, "in_all": 1.0}]},
        "peak": {"peak_gflops": {"float32": 100.0}, "mean_tokens": 26.0, "rows": [row | {"share": 0.2}]},
        "breakdown": {"tiny": {"matrix products": 100.0}},
    }
    page = tmp_path / "page.md"
    page.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    for _ in range(2):
        write_section(page, results)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert "| tiny | 100 examples/s | 450 examples/s | 4.5× (4.4–4.6) | ≥ 4× met |" in text
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="bench:start"):
        write_section(page, results)


def test_without_data_a_benchmark_skips_with_a_reason(monkeypatch, capsys):
    from benchmarks.data import skip_if_missing

    monkeypatch.delenv("POCKETBERT_DATA", raising=False)
    with pytest.raises(SystemExit) as stop:
        skip_if_missing(rival=False)
    assert stop.value.code == 0
    assert "POCKETBERT_DATA" in capsys.readouterr().err


def test_the_performance_page_has_one_place_for_the_numbers():
    from benchmarks.report import END, START

    text = (REPOSITORY / "docs" / "performance.md").read_text(encoding="utf-8")
    assert text.count(START) == text.count(END) == 1
    assert text.index(START) < text.index(END)
