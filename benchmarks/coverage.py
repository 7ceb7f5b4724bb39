"""Do the intervals keep their word? Thousands of made-up studies whose truth is known, counted.

`python -m benchmarks.coverage` simulates tables of right and wrong answers, runs pocketbert's own formulas on each, and
counts how often a 95 % interval holds the truth, how often a comparison fires without a difference, and how often it
finds a difference of the size it says it could have seen. Its own error is printed beside every number.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import optimize, special

from benchmarks.report import align
from pocketbert.study import statistics

START, END = "<!-- coverage:start -->", "<!-- coverage:end -->"
# Of what decides whether an answer is right: how hard an example is for everyone, for this method, and luck of the run.
EVERYONE, METHOD, LUCK = 0.5, 0.2, 0.3
STDS = {"none": 0.0, "moderate": 0.01, "large": 0.04}  # of the accuracy over seeds
ACCURACIES = (0.5, 0.8, 0.95)
EXAMPLES = (100, 277, 1800)
SEEDS = (1, 2, 3, 5, 10)
PAIRS = (
    (1, 1),
    (2, 2),
    (3, 3),
    (5, 5),
    (10, 10),
    (0, 2),
    (0, 3),
    (0, 5),
    (0, 10),
    (2, 5),
    (3, 10),
)  # 0: no seed at all
CHUNK = 20_000_000  # answers simulated at once
Table = tuple[str, list[str], list[list[str]]]


@dataclass(frozen=True)
class World:
    """A method whose expected accuracy, over new seeds and new examples, is known exactly."""

    accuracy: float
    std: float  # of the accuracy over seeds, were there examples without end

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
    worlds: tuple[World, ...], seeds: tuple[int, ...], examples: int, count: int, chance: np.random.Generator
) -> list[np.ndarray]:
    """For every world (count, seeds, examples) of right and wrong; the examples are the same in all worlds."""

    def normal(*shape: int) -> np.ndarray:
        return chance.standard_normal(shape, dtype=np.float32)

    hard = math.sqrt(EVERYONE) * normal(count, 1, examples)
    found = []
    for world, number in zip(worlds, seeds, strict=True):
        mean, spread = world.ability
        easy = hard + math.sqrt(METHOD) * normal(count, 1, examples)
        luck = math.sqrt(LUCK) * normal(count, number, examples)
        luck += easy
        luck += mean + spread * normal(count, number, 1)
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
        found = statistics.accuracy_interval(right)
        inside += int(((found["low"] <= world.accuracy) & (world.accuracy <= found["high"])).sum())
    return inside / simulations


def bootstrap(right: np.ndarray, chance: np.random.Generator, draws: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """The interval not to use: percentiles of the mean, with seeds and examples drawn again from the ones at hand."""
    count, seeds, examples = right.shape
    of_example = chance.poisson(1.0, (examples, draws)).astype(np.float32)  # how often each is drawn, very nearly
    of_seed = chance.multinomial(seeds, np.full(seeds, 1 / seeds), size=(count, draws)) / seeds
    means = right.astype(np.float32) @ of_example / of_example.sum(axis=0)  # (count, seeds, draws)
    low, high = np.quantile(np.einsum("csd,cds->cd", means, of_seed), [0.025, 0.975], axis=1)
    return low, high


def fired(
    worlds: tuple[World, World], seeds: tuple[int, int], examples: int, simulations: int, chance: np.random.Generator
) -> tuple[float, float]:
    """How often a comparison calls a difference, and the root mean square of the smallest it says it could see."""
    called, squares = 0, 0.0
    for count in chunks(simulations, sum(seeds) * examples):
        first, second = answers(worlds, seeds, examples, count, chance)
        effect = first.mean(axis=(-2, -1)) - second.mean(axis=(-2, -1))
        parts = statistics.difference_parts(first, second)
        called += int((np.abs(effect) > statistics.half_width(parts)).sum())
        squares += float((statistics.smallest_difference(parts) ** 2).sum())
    return called / simulations, math.sqrt(squares / simulations)


def coverage_table(simulations: int, seed: int, say: Callable[[str], None]) -> tuple[Table, list[dict[str, Any]]]:
    """One row a number of seeds and a seed variance, one column a test set and an accuracy."""
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


def firing_table(simulations: int, seed: int, say: Callable[[str], None]) -> tuple[Table, list[dict[str, Any]]]:
    """The same for comparisons of two methods that are equally good."""
    cells = []
    for number, (pair, name) in enumerate(product(PAIRS, STDS)):
        if pair == (1, 1) and name != "none":
            continue  # what another seed would change is not counted there, and `counts_seeds` says so
        say(f"comparisons: {_pair(pair)} seeds, {name} seed variance …")
        for place, (examples, accuracy) in enumerate(product(EXAMPLES, ACCURACIES)):
            chance = np.random.default_rng([seed, 2, number, place])
            worlds, seeds = _sides(pair, accuracy, accuracy, STDS[name])
            share, smallest = fired(worlds, seeds, examples, simulations, chance)
            cell = {"seeds": _pair(pair), "std": name, "examples": examples, "accuracy": accuracy, "share": share}
            cells.append(cell | {"smallest": smallest, "pair": pair})
    return _as_table("How often a comparison at 5 % fires where there is no difference", cells), cells


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
        half = cell["smallest"] / 2
        middle = min(cell["accuracy"], 0.99 - half)  # or the better method would be better than perfect
        if middle - half < 0.05:
            continue
        chance = np.random.default_rng([seed, 3, number])
        worlds, seeds = _sides(cell["pair"], middle + half, middle - half, STDS[cell["std"]])
        share, _ = fired(worlds, seeds, cell["examples"], simulations, chance)
        found.append(cell | {"share": share})
    return _as_table("How often it fires at the smallest difference it states (and that difference)", found), found


def _sides(pair: tuple[int, int], first: float, second: float, std: float) -> tuple[Any, Any]:
    """A side of 0 seeds has none to vary: one run, and no variance."""
    worlds = tuple(World(a, std if seeds else 0.0) for a, seeds in zip((first, second), pair, strict=True))
    return worlds, tuple(max(1, seeds) for seeds in pair)


def _pair(pair: tuple[int, int]) -> str:
    return " and ".join(str(seeds) if seeds else "no seed" for seeds in pair)


def _as_table(title: str, cells: list[dict[str, Any]]) -> Table:
    columns = sorted({(cell["examples"], cell["accuracy"]) for cell in cells})
    rows: dict[tuple[str, str], dict[tuple[int, float], str]] = {}
    for cell in cells:
        text = f"{100 * cell['share']:.1f}"
        if title.endswith("(and that difference)"):
            text += f" ({100 * cell['smallest']:.1f})"
        rows.setdefault((cell["seeds"], cell["std"]), {})[cell["examples"], cell["accuracy"]] = text
    head = ["seeds", "seed variance", *(f"{examples:,} at {accuracy:.0%}" for examples, accuracy in columns)]
    return title, head, [[*name, *(row.get(column, "–") for column in columns)] for name, row in rows.items()]


def missed(results: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What is promised, and for each promise the cells that break it."""
    many = [cell for cell in results["coverage"] if cell["seeds"] in ("5", "10")]
    few = [cell for cell in results["coverage"] if cell["seeds"] in ("2", "3")]
    promises = (
        ("intervals with 5 and 10 seeds hold in 93 to 97 %", many, 0.93, 0.97),
        ("intervals with 2 and 3 seeds hold in 90 % or more", few, 0.90, 1.0),
        ("comparisons fire in 6 % or fewer", results["firing"], 0.0, 0.06),
    )
    return {
        _promise(name, cells): [cell for cell in cells if not least <= cell["share"] <= most]
        for name, cells, least, most in promises
    }


def _promise(name: str, cells: list[dict[str, Any]]) -> str:
    shares = sorted(100 * cell["share"] for cell in cells)
    return f"{name}: {shares[0]:.1f} to {shares[-1]:.1f} % in {len(cells)} cells, in the middle {median(shares):.1f} %"


def verdicts(results: dict[str, Any]) -> list[str]:
    """The promises in words, with every cell that breaks one; power should be 80 %, and no bounds were set for it."""
    enough = [cell for cell in results["power"] if 2 not in cell["pair"]]
    two = [cell for cell in results["power"] if 2 in cell["pair"]]
    found = [
        name + (f"; {len(cells)} miss: " + "; ".join(map(_place, cells)) if cells else "; none misses")
        for name, cells in missed(results).items()
    ]
    found.append(_promise("differences of the stated size are found, which should be in 80 %, two seeds aside", enough))
    return [*found, _promise("the same with two seeds on a side", two)]


def _place(cell: dict[str, Any]) -> str:
    return (
        f"{100 * cell['share']:.1f} % with {cell['seeds']} seeds, seed variance {cell['std']}, "
        f"{cell['examples']:,} examples at {cell['accuracy']:.0%}"
    )


def simulate(simulations: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Everything, in one run."""
    started = time.perf_counter()
    intervals, covering = coverage_table(simulations, seed, say)
    naive = bootstrap_table(simulations, seed, say)
    comparisons, firing = firing_table(simulations, seed, say)
    power, found = power_table(firing, simulations, seed, say)
    return {
        "simulations": simulations,
        "seed": seed,
        "seconds": time.perf_counter() - started,
        "tables": [intervals, naive, comparisons, power],
        "coverage": covering,
        "firing": firing,
        "power": found,
    }


def facts(results: dict[str, Any]) -> str:
    count = results["simulations"]
    at_95, at_80 = (100 * math.sqrt(share * (1 - share) / count) for share in (0.05, 0.8))
    return (
        f"{count:,} made-up studies a cell, random seed {results['seed']}, {results['seconds']:.0f} s on one core. "
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


def write_section(page: Path, text: str, start: str = START, end: str = END) -> None:
    """Replace what is between the two marks of a page; the rest of it is left alone."""
    whole = page.read_text(encoding="utf-8")
    if whole.count(start) != 1 or whole.count(end) != 1 or whole.index(start) > whole.index(end):
        raise SystemExit(f"{page}: expected one {start} and, after it, one {end}")
    before, rest = whole.split(start)
    page.write_text(f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage", description="how often intervals hold the truth and comparisons misfire"
    )
    parser.add_argument("--simulations", type=int, default=2000, metavar="N", help="made-up studies a cell")
    parser.add_argument("--seed", type=int, default=2, help="of the simulation")
    parser.add_argument("--quick", action="store_true", help="20 a cell, to see that it works")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="fill in the marked section of a page")
    options = parser.parse_args()
    if options.quick and options.write:
        parser.error("--quick measures nothing worth writing down; leave one of --quick and --write away")
    count = 20 if options.quick else options.simulations
    results = simulate(count, options.seed, lambda line: print(line, file=sys.stderr, flush=True))
    print(as_text(results))
    if options.write:
        write_section(options.write, as_markdown(results))


if __name__ == "__main__":
    main()
