"""Does an audit keep its word? Simulated classifiers with a known effect of a swap, thousands of them.

A classifier here is a function of scores: each sentence has a log-odds that its template, its filler and its training
decide, and the swap adds an effect that has a true mean and varies with template and training. No language and no
training is needed, so each regime is simulated 2,000 times. Written into docs/audit.md by

    python -m benchmarks.audit_coverage --write docs/audit.md
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pocketbert.audits.measures import MARGIN, measure_change
from pocketbert.statistics import LEVEL

REGIMES = {  # seeds, templates, fillers; how much the swap's log-odds vary over templates, over seeds
    "1 training, 45 templates": (1, 45, 10, 0.3, 0.0),
    "1 training, 24 templates": (1, 24, 10, 0.3, 0.0),
    "3 trainings that agree": (3, 45, 10, 0.3, 0.0),
    "3 trainings that differ a little": (3, 45, 10, 0.3, 0.05),
    "3 trainings that differ": (3, 45, 10, 0.3, 0.15),
    "3 trainings that differ much": (3, 45, 10, 0.3, 0.3),
    "5 trainings that differ a little": (5, 45, 10, 0.3, 0.05),
    "5 trainings that differ much": (5, 45, 10, 0.3, 0.3),
    "5 trainings, 24 templates": (5, 24, 10, 0.3, 0.1),
    "10 trainings that differ much": (10, 45, 10, 0.3, 0.3),
}
START, END = "<!-- coverage:start -->", "<!-- coverage:end -->"
TRUTH = 200_000  # draws for the true mean of a regime


@dataclass(frozen=True)
class Regime:
    seeds: int
    templates: int
    fillers: int
    over_templates: float
    over_seeds: float

    def changes(self, random: np.random.Generator, effect: float) -> np.ndarray:
        """(seeds, templates x fillers): the change in probability of every pair."""
        shape = (self.seeds, self.templates, self.fillers)
        base = random.normal(0, 2, (1, self.templates, 1)) + random.normal(0, 0.5, shape)
        swap = effect + random.normal(0, self.over_templates, (1, self.templates, 1))
        swap = swap + random.normal(0, self.over_seeds, (self.seeds, 1, 1)) + random.normal(0, 0.1, shape)
        found: np.ndarray = (_sigmoid(base + swap) - _sigmoid(base)).reshape(self.seeds, -1)
        return found

    def truth(self, effect: float) -> float:
        """The mean over all templates and trainings there could be."""
        random = np.random.default_rng(1)
        spread = np.hypot(self.over_templates, np.hypot(self.over_seeds, 0.1))
        base = random.normal(0, np.hypot(2, 0.5), TRUTH)
        swap = effect + random.normal(0, spread, TRUTH)
        both = [_sigmoid(sign * base + swap) - _sigmoid(sign * base) for sign in (1, -1)]  # antithetic
        return float(np.mean(both))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def effect_at(regime: Regime, wanted: float) -> float:
    """The effect in log-odds whose true mean change is `wanted`."""
    low, high = 0.0, 3.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if regime.truth(middle) < wanted else (low, middle)
    return low


def simulate(regime: Regime, times: int, seed: int) -> dict[str, float]:
    """Shares over simulated audits: false alarms without an effect, equivalence at the margin, coverage of both."""
    random = np.random.default_rng(seed)
    templates = np.repeat(np.arange(regime.templates), regime.fillers)
    at_margin = effect_at(regime, MARGIN)
    counts = {"false alarms": 0, "coverage without effect": 0, "equivalence at the margin": 0, "coverage at it": 0}
    for _ in range(times):
        none = measure_change(regime.changes(random, 0.0), templates)
        counts["false alarms"] += none.p_value < LEVEL
        counts["coverage without effect"] += none.low <= 0 <= none.high
        some = measure_change(regime.changes(random, at_margin), templates)
        counts["equivalence at the margin"] += some.equivalence_p_value < LEVEL
        counts["coverage at it"] += some.low <= MARGIN <= some.high
    return {name: count / times for name, count in counts.items()}


def table(times: int) -> str:
    lines = [
        "| regime | false alarms % | coverage, no effect % | equivalence at the margin % | coverage, at the margin % |",
        "|---|---|---|---|---|",
    ]
    for number, (name, numbers) in enumerate(REGIMES.items()):
        found = simulate(Regime(*numbers), times, seed=number)
        lines.append(f"| {name} | " + " | ".join(f"{100 * share:.1f}" for share in found.values()) + " |")
        print(lines[-1], flush=True)
    error = 100 * 1.96 * np.sqrt(0.05 * 0.95 / times)
    lines.append("")
    lines.append(
        f"{times:,} simulated audits per cell; a share of 5 or 95 % is known to ±{error:.1f} points (95 %). "
        f"The margin is {100 * MARGIN:g} points."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=2_000)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    made = table(arguments.times)
    if arguments.write:
        before, _, rest = arguments.write.read_text(encoding="utf-8").partition(START)
        arguments.write.write_text(f"{before}{START}\n{made}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
