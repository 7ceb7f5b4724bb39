"""Which interval for a difference under five folds? Four rules, on normal noise and on the studies of real_studies.py.

`python -m benchmarks.fold_rules FOLDER …`. The rules, for per-example differences whose mean has the variance v as far
as examples tell, and s as far as the scatter of fold means tells (K − 1 degrees of freedom):

- examples alone: z² v, as if there had been one model;
- truncated excess: z² v + t² max(0, s − v);
- wider of two: max(z² v, t² s), which pocketbert uses;
- Nadeau and Bengio (2003): t² s (1 + K / (K − 1)), for training sets that overlap.
"""

import argparse
import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.coverage import write_section
from benchmarks.coverage_real import AGAIN, Study, read_study, true_scores
from pocketbert.statistics import LEVEL
from pocketbert.statistics.variance import critical_value, sums_by_group, variance_of_mean

START, END = "<!-- fold-rules:start -->", "<!-- fold-rules:end -->"
FOLDS, FAMILY = 5, 5
Rule = Callable[[np.ndarray, np.ndarray, float, float], np.ndarray]  # v, s, z², t² → squared half width
RULES: dict[str, Rule] = {
    "examples alone": lambda v, s, z, t: z * v + 0 * s,
    "truncated excess": lambda v, s, z, t: z * v + t * np.maximum(0, s - v),
    "wider of two": lambda v, s, z, t: np.maximum(z * v, t * s),
    "Nadeau and Bengio": lambda v, s, z, t: t * s * (1 + FOLDS / (FOLDS - 1)),
}


def squares(rule: Rule, v: np.ndarray, s: np.ndarray, level: float = LEVEL) -> np.ndarray:
    z, t = (critical_value(degrees, level / 2) ** 2 for degrees in (math.inf, FOLDS - 1))
    return rule(v, s, z, t)


def normal_noise(simulations: int, seed: int) -> list[list[str]]:
    """False alarms of one comparison, and of all pairs of five equal rows at Bonferroni's level, with normal noise.

    Trainings add `share` times what examples do.
    """
    found = []
    pairs = list(combinations(range(FAMILY), 2))
    for number, share in enumerate((0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)):
        random = np.random.default_rng([seed, number])
        rows = random.standard_normal((FAMILY, simulations, FOLDS)) * math.sqrt(FOLDS * (1 + share) / 2)
        line = [f"{share:g}"]
        for rule in RULES.values():
            single, family = [], np.zeros(simulations, dtype=bool)
            for one, two in pairs:
                difference = rows[one] - rows[two]
                effect, s = difference.mean(axis=1) ** 2, difference.var(axis=1, ddof=1) / FOLDS
                v = np.ones_like(s)
                single.append((effect > squares(rule, v, s)).mean())
                family |= effect > squares(rule, v, s, LEVEL / len(pairs))
            line.append(f"{100 * np.mean(single):.1f} / {100 * family.mean():.1f}")
        found.append(line)
    return found


def real_noise(studies: list[Study]) -> list[list[str]]:
    """Over all pairs of rows and all studies: coverage, false alarms, half width, how many differences were found."""
    truth = true_scores(studies, "accuracy")
    pairs = [pair for pair in combinations(truth, 2) if not pair[0].endswith(AGAIN)]
    inside: dict[str, list[bool]] = {name: [] for name in RULES}
    alarms: dict[str, list[bool]] = {name: [] for name in RULES}
    halves: dict[str, list[float]] = {name: [] for name in RULES}
    significant: dict[str, list[bool]] = {name: [] for name in RULES}
    for study in studies:
        for first, second in pairs:
            one, two = study.folds[first], study.folds[second]
            assert one.folds is not None
            each = one.correct[0].astype(np.float64) - two.correct[0]
            sizes = np.bincount(one.folds[0])
            means = sums_by_group(each, one.folds[0]) / sizes
            s = np.sum(sizes / len(each) * (means - each.mean()) ** 2) / (FOLDS - 1)
            v = variance_of_mean(each, one.clusters)
            same = second == first + AGAIN
            distance = abs(each.mean() - (0.0 if same else truth[first] - truth[second])) / math.sqrt(1 - study.share)
            for name, rule in RULES.items():
                half = math.sqrt(squares(rule, v, s))
                if same:
                    alarms[name].append(abs(each.mean()) > half)
                elif not second.endswith(AGAIN):
                    inside[name].append(distance <= half)
                    halves[name].append(half)
                    significant[name].append(abs(each.mean()) > half)
    return [
        [
            name,
            f"{100 * np.mean(inside[name]):.1f}",
            f"{100 * np.mean(alarms[name]):.1f}",
            f"{100 * np.mean(halves[name]):.2f}",
            f"{100 * np.mean(significant[name]):.1f}",
        ]
        for name in RULES
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fold_rules", description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, help="as benchmarks.real_studies writes them")
    parser.add_argument("--simulations", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="fill in the marked section of a page")
    options = parser.parse_args()
    head = ["trainings' noise / examples' noise", *RULES]
    text = [
        f"False alarms in per cent, normal noise, {options.simulations:,} studies: one comparison / any of the pairs "
        f"of {FAMILY} equal rows, corrected.",
        table(head, normal_noise(options.simulations, options.seed)),
    ]
    for folder in options.folders:
        studies = [read_study(path, 1) for path in sorted(folder.glob("[0-9]*.npz")) if ".part" not in path.name]
        text.append(f"{folder.name}, {len(studies)} studies, all pairs of rows together:")
        text.append(table(["rule", "coverage", "false alarms", "half width", "found"], real_noise(studies)))
    print("\n\n".join(text))
    if options.write:
        write_section(options.write, "\n\n".join(text), START, END)


if __name__ == "__main__":
    main()
