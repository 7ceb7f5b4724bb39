"""Do the intervals keep their word? Thousands of made-up studies whose truth is known, counted.

`python -m benchmarks.coverage` simulates tables of right and wrong answers, runs pocketbert's own formulas on each, and
counts how often a 95 % interval holds the truth, how often a comparison of equals is significant, and how often a
difference of the size that a study says it could detect is found. Its own error is printed beside every number.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import optimize, special

from benchmarks.report import align
from pocketbert import statistics
from pocketbert.statistics import variance
from pocketbert.statistics.estimate import score_interval

PARTS = ("split", "folds")
MARKS = {
    "split": ("<!-- coverage:start -->", "<!-- coverage:end -->"),
    "folds": ("<!-- coverage-folds:start -->", "<!-- coverage-folds:end -->"),
}
# Of what decides whether an answer is right: how hard an example is for everyone, for this method, and luck of the run.
EVERYONE, METHOD, LUCK = 0.5, 0.2, 0.3
STDS = {"none": 0.0, "moderate": 0.01, "large": 0.04}  # of the accuracy over seeds
ACCURACIES = (0.5, 0.8, 0.95)
EXAMPLES = (100, 277, 1800)
SEEDS = (1, 2, 3, 5, 10)
PAIRS = (
    (1, 1),
    (3, 3),
    (5, 5),
    (10, 10),
    (0, 3),
    (0, 5),
    (0, 10),
    (3, 10),
)  # 0: no seed at all
FOLDS = 5
FOLD_EXAMPLES = (300, 1000, 4000)
FOLD_PAIRS = ((1, 1), (2, 2), (0, 1), (0, 2))  # repeats of each side; 0: one, of a method without seed
FAMILY = 5  # rows that are compared with one another
CHUNK = 20_000_000  # answers simulated at once
Table = tuple[str, list[str], list[list[str]]]


@dataclass(frozen=True)
class World:
    """A method whose expected accuracy, over new seeds and new examples, is known exactly."""

    accuracy: float
    std: float  # of the accuracy over seeds, were there examples without end
    seeded: bool = True

    @property
    def ability(self) -> tuple[float, float]:
        """Mean and standard deviation of the seeds' ability on the hidden scale, where an answer above 0 is right."""
        return _ability(self.accuracy, self.std)


@cache
def _ability(accuracy: float, std: float) -> tuple[float, float]:
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()

    def mean(spread: float) -> float:
        return float(special.ndtri(accuracy)) * math.sqrt(1 + spread**2)

    def excess(spread: float) -> float:
        each = special.ndtr(mean(spread) + spread * points)
        return math.sqrt(float(weights @ (each - accuracy) ** 2)) - std

    spread = float(optimize.brentq(excess, 1e-9, 3.0)) if std else 0.0
    return mean(spread), spread


def answers(
    worlds: tuple[World, ...],
    draws: tuple[int, ...],
    examples: int,
    count: int,
    chance: np.random.Generator,
    folds: np.ndarray | None = None,
) -> list[np.ndarray]:
    """For every world (count, draws, examples) of right and wrong; the examples are the same in all worlds.

    Under folds, (repeats, examples), every fold of a draw has a training, and so an ability, of its own.
    """

    def normal(*shape: int) -> np.ndarray:
        return chance.standard_normal(shape, dtype=np.float32)

    hard = math.sqrt(EVERYONE) * normal(count, 1, examples)
    found = []
    for world, number in zip(worlds, draws, strict=True):
        mean, spread = world.ability
        easy = hard + math.sqrt(METHOD) * normal(count, 1, examples)
        luck = math.sqrt(LUCK) * normal(count, number, examples)
        luck += easy
        if folds is None:
            luck += mean + spread * normal(count, number, 1)
        else:
            luck += mean + spread * normal(count, number, FOLDS)[:, np.arange(number)[:, None], folds[:number]]
        found.append(luck > 0)
    return found


def chunks(simulations: int, size: int) -> Iterator[int]:
    """Counts that add up to `simulations`, each small enough for memory."""
    most = max(1, CHUNK // size)
    while simulations > 0:
        yield min(most, simulations)
        simulations -= most


def covered(world: World, seeds: int, examples: int, simulations: int, chance: np.random.Generator) -> float:
    """How often the 95 % interval of an accuracy holds the true one."""
    inside = 0
    for count in chunks(simulations, seeds * examples):
        (right,) = answers((world,), (seeds,), examples, count, chance)
        found = score_interval(right.astype(np.float64))
        inside += int(((found["low"] <= world.accuracy) & (world.accuracy <= found["high"])).sum())
    return inside / simulations


def bootstrap(right: np.ndarray, chance: np.random.Generator, draws: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """The interval not to use: percentiles of the mean, with seeds and examples drawn again from those there are."""
    count, seeds, examples = right.shape
    of_example = chance.poisson(1.0, (examples, draws)).astype(np.float32)  # how often each is drawn, very nearly
    of_seed = chance.multinomial(seeds, np.full(seeds, 1 / seeds), size=(count, draws)) / seeds
    means = right.astype(np.float32) @ of_example / of_example.sum(axis=0)  # (count, seeds, draws)
    low, high = np.quantile(np.einsum("csd,cds->cd", means, of_seed), [0.025, 0.975], axis=1)
    return low, high


def alarms(
    worlds: tuple[World, World],
    draws: tuple[int, int],
    examples: int,
    simulations: int,
    chance: np.random.Generator,
    folds: np.ndarray | None = None,
) -> tuple[float, float]:
    """How often a comparison is significant, and the root mean square of the effect it says it could detect."""
    called, squares = 0, 0.0
    seeded = (worlds[0].seeded, worlds[1].seeded)
    of_rows = None if folds is None else (folds[: draws[0]], folds[: draws[1]])
    for count in chunks(simulations, sum(draws) * examples):
        first, second = (one.astype(np.float64) for one in answers(worlds, draws, examples, count, chance, folds))
        means = first.mean(axis=(-2, -1)), second.mean(axis=(-2, -1))
        scales = variance.skewness_scales(means, seeded)
        noise = variance.difference_noise(first, second, of_rows, None, scales)
        called += int((np.abs(means[0] - means[1]) > variance.half_width(noise)).sum())
        squares += float((variance.detectable_effect(noise) ** 2).sum())
    return called / simulations, math.sqrt(squares / simulations)


def random_folds(repeats: int, examples: int, chance: np.random.Generator) -> np.ndarray:
    return np.stack([chance.permutation(examples) % FOLDS for _ in range(repeats)])


def coverage_table(simulations: int, seed: int, say: Callable[[str], None]) -> tuple[Table, list[dict[str, Any]]]:
    """One row per number of seeds and seed variance, one column per test set and accuracy."""
    cells = []
    for number, (seeds, name) in enumerate(product(SEEDS, STDS)):
        say(f"intervals: {seeds} seeds, {name} seed variance …")
        for place, (examples, accuracy) in enumerate(product(EXAMPLES, ACCURACIES)):
            chance = np.random.default_rng([seed, 1, number, place])
            share = covered(World(accuracy, STDS[name]), seeds, examples, simulations, chance)
            cells.append({"seeds": str(seeds), "std": name, "examples": examples, "accuracy": accuracy, "share": share})
    return _as_table("How often the 95 % interval of an accuracy holds the truth", cells), cells


def bootstrap_table(simulations: int, seed: int, say: Callable[[str], None]) -> Table:
    """What a percentile bootstrap would have claimed, where test examples are many and seeds are what matters."""
    say("a bootstrap, for comparison …")
    examples, accuracy = 1800, 0.8
    rows = []
    for number, name in enumerate(STDS):
        world = World(accuracy, STDS[name])
        row = [name]
        for seeds in SEEDS[1:]:
            chance = np.random.default_rng([seed, 4, number, seeds])
            inside = 0
            for count in chunks(simulations, 5 * seeds * examples):
                (right,) = answers((world,), (seeds,), examples, count, chance)
                low, high = bootstrap(right, chance)
                inside += int(((low <= accuracy) & (accuracy <= high)).sum())
            row.append(f"{100 * inside / simulations:.1f}")
        rows.append(row)
    title = f"How often a percentile bootstrap holds it ({examples:,} examples, accuracy {accuracy:.0%})"
    return title, ["seed variance", *(f"{seeds} seeds" for seeds in SEEDS[1:])], rows


def alarm_table(simulations: int, seed: int, say: Callable[[str], None]) -> tuple[Table, list[dict[str, Any]]]:
    """The same for comparisons of two methods that are equally good."""
    cells = []
    for number, (pair, name) in enumerate(product(PAIRS, STDS)):
        if pair == (1, 1) and name != "none":
            continue  # what another seed would change is not counted there, and `counts_training_noise` says so
        say(f"comparisons: {_pair(pair)} seeds, {name} seed variance …")
        for place, (examples, accuracy) in enumerate(product(EXAMPLES, ACCURACIES)):
            chance = np.random.default_rng([seed, 2, number, place])
            worlds, seeds = _sides(pair, accuracy, accuracy, STDS[name])
            share, detectable = alarms(worlds, seeds, examples, simulations, chance)
            cell = {"seeds": _pair(pair), "std": name, "examples": examples, "accuracy": accuracy, "share": share}
            cells.append(cell | {"detectable": detectable, "pair": pair})
    return _as_table("How often a comparison of equals is significant at 5 %", cells), cells


def power_table(
    cells: list[dict[str, Any]], simulations: int, seed: int, say: Callable[[str], None]
) -> tuple[Table, list[dict[str, Any]]]:
    """Again, with the difference set to the smallest one the comparisons without any said they could see."""
    found = []
    for number, cell in enumerate(cells):
        if cell["examples"] == 100:
            continue
        if (cell["examples"], cell["accuracy"]) == (277, 0.5):
            say(f"power: {cell['seeds']} seeds, {cell['std']} seed variance …")
        half = cell["detectable"] / 2
        middle = min(cell["accuracy"], 0.99 - half)  # or the better method would be better than perfect
        if middle - half < 0.05:
            continue
        chance = np.random.default_rng([seed, 3, number])
        worlds, seeds = _sides(cell["pair"], middle + half, middle - half, STDS[cell["std"]])
        share, _ = alarms(worlds, seeds, cell["examples"], simulations, chance)
        found.append(cell | {"share": share})
    return _as_table(
        "How often a difference of the size called detectable is found (and that size, in points)", found
    ), found


def fold_table(simulations: int, seed: int, say: Callable[[str], None]) -> tuple[Table, list[dict[str, Any]]]:
    """Comparisons of equals under cross-validation, one training per fold and repeat."""
    cells = []
    for number, (pair, name) in enumerate(product(FOLD_PAIRS, STDS)):
        say(f"folds: {_repeats(pair)}, {name} seed variance …")
        for place, (examples, accuracy) in enumerate(product(FOLD_EXAMPLES, ACCURACIES)):
            chance = np.random.default_rng([seed, 5, number, place])
            folds = random_folds(max(pair), examples, chance)
            repeats = (max(pair), max(pair))
            worlds, _ = _sides(pair, accuracy, accuracy, STDS[name])
            share, detectable = alarms(worlds, repeats, examples, simulations, chance, folds)
            cell = {"seeds": _repeats(pair), "std": name, "examples": examples, "accuracy": accuracy, "share": share}
            cells.append(cell | {"detectable": detectable})
    return _as_table(f"The same under {FOLDS} folds", cells, "repeats"), cells


def family_table(simulations: int, seed: int, say: Callable[[str], None]) -> tuple[Table, list[dict[str, Any]]]:
    """All pairs of equal rows at once: how often is any significant after Shaffer's correction?

    The first step decides that: it is the strictest, and where it finds nothing the others find nothing.
    """
    say("families …")
    cells = []
    pairs = list(combinations(range(FAMILY), 2))
    for number, (repeats, name) in enumerate(product((1, 2), STDS)):
        for place, (examples, accuracy) in enumerate(product(FOLD_EXAMPLES[:2], ACCURACIES)):
            chance = np.random.default_rng([seed, 6, number, place])
            folds = random_folds(repeats, examples, chance)
            alike = (World(accuracy, STDS[name]),) * FAMILY
            called = 0
            for count in chunks(simulations, 2 * FAMILY * repeats * examples):
                rows = answers(alike, (repeats,) * FAMILY, examples, count, chance, folds)
                values = [row.astype(np.float64) for row in rows]
                any_called = np.zeros(count, dtype=bool)
                for one, two in pairs:
                    noise = variance.difference_noise(values[one], values[two], (folds, folds), None)
                    effect = values[one].mean(axis=(-2, -1)) - values[two].mean(axis=(-2, -1))
                    any_called |= np.abs(effect) > variance.half_width(noise, variance.LEVEL / len(pairs))
                called += int(any_called.sum())
            cell = {"seeds": str(repeats), "std": name, "examples": examples, "accuracy": accuracy}
            cells.append(cell | {"share": called / simulations})
    title = f"How often any pair of {FAMILY} equal rows is significant, corrected, under {FOLDS} folds"
    return _as_table(title, cells, "repeats"), cells


def metric_table(simulations: int, seed: int, say: Callable[[str], None]) -> tuple[Table, list[dict[str, Any]]]:
    """Two equal rows on unbalanced labels, where accuracy says little; texts alone or in clusters of three.

    A tenth is positive. Of positives 60 % are right, of negatives 95 %. These studies go through `compare` itself.
    """
    examples, positive, accuracies, std = 900, 0.1, (0.95, 0.6), 0.01
    rows, cells = [], []
    for number, (design, size) in enumerate(product(("5 seeds", f"{FOLDS} folds"), (1, 3))):
        say(f"metrics: {design}, clusters of {size} …")
        chance = np.random.default_rng([seed, 7, number])
        called = dict.fromkeys(statistics.METRICS, 0)
        clusters = np.arange(examples) // size
        for _ in range(simulations):
            labels = (chance.random(examples // size) < positive).astype(np.int64)[clusters]
            folds = None if design == "5 seeds" else random_folds(1, examples // size, chance)[:, clusters]
            draws = 5 if folds is None else 1
            each = [  # for negatives and for positives; texts of a cluster get the same answer but for luck
                answers((World(accuracy, std),) * 2, (draws, draws), examples // size, 1, chance, _first(folds, size))
                for accuracy in accuracies
            ]
            sides = []
            for side in range(2):
                right = np.where(labels == 1, each[1][side][0][:, clusters], each[0][side][0][:, clusters])
                sides.append(statistics.Outcomes(np.where(right, labels, 1 - labels), labels, folds, clusters))
            for metric in called:
                called[metric] += statistics.compare(*sides, metric).p_value < variance.LEVEL
        rows.append([design, str(size), *(f"{100 * hits / simulations:.1f}" for hits in called.values())])
        cells += [
            {"seeds": design, "std": f"moderate, {metric}, clusters of {size}", "examples": examples, "accuracy": 0.9}
            | {"share": hits / simulations}
            for metric, hits in called.items()
        ]
    title = f"The same for every metric: {examples} examples, a tenth of them positive"
    return (title, ["design", "texts per cluster", *statistics.METRICS], rows), cells


def _first(folds: np.ndarray | None, size: int) -> np.ndarray | None:
    """Of each cluster the first text's fold."""
    return None if folds is None else folds[:, ::size]


def _repeats(pair: tuple[int, int]) -> str:
    return f"{max(pair)}" + (", one side without seed" if min(pair) == 0 else "")


def _sides(pair: tuple[int, int], first: float, second: float, std: float) -> tuple[Any, Any]:
    """A side of 0 seeds has none to vary: one run, and no variance."""
    worlds = tuple(World(a, std if seeds else 0.0, seeds > 0) for a, seeds in zip((first, second), pair, strict=True))
    return worlds, tuple(max(1, seeds) for seeds in pair)


def _pair(pair: tuple[int, int]) -> str:
    return " and ".join(str(seeds) if seeds else "no seed" for seeds in pair)


def _as_table(title: str, cells: list[dict[str, Any]], first: str = "seeds") -> Table:
    columns = sorted({(cell["examples"], cell["accuracy"]) for cell in cells})
    rows: dict[tuple[str, str], dict[tuple[int, float], str]] = {}
    for cell in cells:
        text = f"{100 * cell['share']:.1f}"
        if title.endswith("in points)"):
            text += f" ({100 * cell['detectable']:.1f})"
        rows.setdefault((cell["seeds"], cell["std"]), {})[cell["examples"], cell["accuracy"]] = text
    head = [first, "seed variance", *(f"{examples:,} at {accuracy:.0%}" for examples, accuracy in columns)]
    return title, head, [[*name, *(row.get(column, "–") for column in columns)] for name, row in rows.items()]


def missed(results: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What is promised, and for each promise the cells that break it."""
    many = [cell for cell in results.get("coverage", ()) if cell["seeds"] in ("5", "10")]
    few = [cell for cell in results.get("coverage", ()) if cell["seeds"] in ("2", "3")]
    promises = (
        ("intervals with 5 and 10 seeds hold in 93 to 97 %", many, 0.93, 0.97),
        ("intervals with 2 and 3 seeds hold in 90 % or more", few, 0.90, 1.0),
        ("of comparisons of equals, 6 % or fewer are significant", results.get("alarms", ()), 0.0, 0.06),
        ("the same under folds", results.get("folds", ()), 0.0, 0.06),
        ("of families of 5 equal rows, 6 % or fewer have a significant pair", results.get("families", ()), 0.0, 0.06),
        ("all metrics, with and without clusters", results.get("metrics", ()), 0.0, 0.06),
    )
    return {
        _promise(name, cells): [cell for cell in cells if not least <= cell["share"] <= most]
        for name, cells, least, most in promises
        if cells
    }


def _promise(name: str, cells: list[dict[str, Any]]) -> str:
    shares = sorted(100 * cell["share"] for cell in cells)
    return f"{name}: {shares[0]:.1f} to {shares[-1]:.1f} % in {len(cells)} cells, in the middle {median(shares):.1f} %"


def verdicts(results: dict[str, Any]) -> list[str]:
    """The promises in words, with every cell that breaks one; power should be 80 %, and no bounds were set for it."""
    found = [
        name + (f"; {len(cells)} miss: " + "; ".join(map(_place, cells)) if cells else "; none misses")
        for name, cells in missed(results).items()
    ]
    if "power" in results:
        found.append(_promise("differences called detectable are found, which should be in 80 %", results["power"]))
    return found


def _place(cell: dict[str, Any]) -> str:
    return (
        f"{100 * cell['share']:.1f} % with {cell['seeds']}, seed variance {cell['std']}, "
        f"{cell['examples']:,} examples at {cell['accuracy']:.0%}"
    )


def simulate(simulations: int, seed: int, say: Callable[[str], None], parts: Sequence[str] = PARTS) -> dict[str, Any]:
    """Studies with a fixed test split, studies under folds, or both."""
    started = time.perf_counter()
    tables: list[Table] = []
    cells: dict[str, list[dict[str, Any]]] = {}
    if "split" in parts:
        intervals, cells["coverage"] = coverage_table(simulations, seed, say)
        naive = bootstrap_table(simulations, seed, say)
        comparisons, cells["alarms"] = alarm_table(simulations, seed, say)
        power, cells["power"] = power_table(cells["alarms"], simulations, seed, say)
        tables += [intervals, naive, comparisons, power]
    if "folds" in parts:
        for name, make in (("folds", fold_table), ("families", family_table), ("metrics", metric_table)):
            table, cells[name] = make(simulations, seed, say)
            tables.append(table)
    elapsed = time.perf_counter() - started
    return {"simulations": simulations, "seed": seed, "seconds": elapsed, "tables": tables, **cells}


def facts(results: dict[str, Any]) -> str:
    count = results["simulations"]
    at_95, at_80 = (100 * math.sqrt(share * (1 - share) / count) for share in (0.05, 0.8))
    return (
        f"{count:,} made-up studies per cell, random seed {results['seed']}, {results['seconds']:.0f} s on one core. "
        f"A cell's own standard error is {at_95:.1f} points where the truth is 95 or 5 %, {at_80:.1f} points where it "
        "is 80 %. All numbers are per cent."
    )


def as_text(results: dict[str, Any]) -> str:
    """For a terminal."""
    parts = [facts(results)]
    for title, columns, rows in results["tables"]:
        parts.append(title + "\n" + "\n".join("  " + line for line in align([columns, *rows])))
    return "\n\n".join([*parts, "\n".join(verdicts(results))])


def as_markdown(results: dict[str, Any]) -> str:
    parts = [facts(results), "\n".join(f"- {line}" for line in verdicts(results))]
    for title, columns, rows in results["tables"]:
        lines = [columns, ["---"] * len(columns), *rows]
        parts.append(f"### {title}\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in lines))
    return "\n\n".join(parts)


def write_section(page: Path, text: str, start: str, end: str) -> None:
    """Replace what is between the two marks of a page; the rest of it is left alone."""
    whole = page.read_text(encoding="utf-8")
    if whole.count(start) != 1 or whole.count(end) != 1 or whole.index(start) > whole.index(end):
        raise SystemExit(f"{page}: expected one {start} and, after it, one {end}")
    before, rest = whole.split(start)
    page.write_text(f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage",
        description="how often intervals hold the truth and comparisons of equals are significant",
    )
    parser.add_argument("--simulations", type=int, default=2000, metavar="N", help="made-up studies per cell")
    parser.add_argument("--seed", type=int, default=2, help="of the simulation")
    parser.add_argument("--quick", action="store_true", help="20 per cell, to see that it works")
    parser.add_argument("--part", choices=PARTS, help="a fixed test split, or folds; default: both")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="fill in the marked sections of a page")
    options = parser.parse_args()
    if options.quick and options.write:
        parser.error("--quick measures nothing worth writing down; leave one of --quick and --write away")
    count = 20 if options.quick else options.simulations
    for part in [options.part] if options.part else PARTS:
        results = simulate(count, options.seed, lambda line: print(line, file=sys.stderr, flush=True), [part])
        print(as_text(results))
        if options.write:
            write_section(options.write, as_markdown(results), *MARKS[part])


if __name__ == "__main__":
    main()
