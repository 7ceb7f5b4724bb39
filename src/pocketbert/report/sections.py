"""The document, arranged for reading: grouped by task, best first, long lists cut with a word on what was left out."""

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from pocketbert.report import charts
from pocketbert.report.svg import around
from pocketbert.report.wording import count, duration, number, percent, plain

MOST_COMPARISONS = 60  # in all; beyond it only those with the best row or a baseline are shown
MOST_KEPT = 200  # … and of these so many
REACH = 0.15  # how far drawn differences from one of these go: they may be 40 points away, and would squeeze all others
MOST_CHART_ROWS = 60
MOST_CLASSES = 12  # a wider confusion matrix is a list of its most common mistakes instead
MOST_LABELS = 30
OPEN_CARDS = 12  # further ones are folded away
MOST_MISTAKES = 12  # a row
MOST_MISTAKES_IN_ALL = 120
MOST_LINES = 200  # of a table of probes, of a published table, of failures

SPLITS = ("train", "dev", "test")

Dict = dict[str, Any]


def dicts(value: Any) -> list[Dict]:
    """The dictionaries of a list; nothing where there is no list. Documents of other versions may lack any key."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def groups(results: Dict) -> list[Dict]:
    """One a task: what is known of it, and its rows, best first and numbered. Charts refer to rows by these numbers."""
    found: dict[str, Dict] = {}
    for task in dicts(results.get("tasks")):
        found.setdefault(str(task.get("name")), {"name": str(task.get("name")), "task": task, "rows": []})
    for row in dicts(results.get("rows")):
        name = str(row.get("task"))
        found.setdefault(name, {"name": name, "task": {}, "rows": []})["rows"].append(dict(row))
    for group in found.values():
        group["rows"].sort(key=_quality, reverse=True)
        for index, row in enumerate(group["rows"]):
            row["number"] = index + 1
    return list(found.values())


def _quality(row: Dict) -> float:
    """What rows are ordered by; one without a score comes last, whatever the others are."""
    mean = charts.accuracy_of(row)
    return -1.0 if mean is None else mean


def result_tables(each: list[Dict]) -> Iterator[Dict]:
    for group in each:
        rows = group["rows"]
        if not rows:
            continue
        scored = {str(row.get("split")) for row in rows if row.get("split")}
        known = [row for row in rows if charts.accuracy_of(row) is not None]
        shown = known[:MOST_CHART_ROWS]
        shown += [row for row in known[MOST_CHART_ROWS:] if row.get("baseline")]
        label = f"accuracy of {len(shown)} rows on {group['name']}, each with its 95 % interval"
        yield {
            "name": group["name"],
            "rows": rows,
            "scored": " and ".join(sorted(scored)),
            "examples": number((group["task"].get("rows") or {}).get(next(iter(scored)))) if len(scored) == 1 else None,
            "refused": group["task"].get("refused") or {},
            "theirs": any(row.get("theirs") for row in rows),
            "alone": any((row.get("accuracy") or {}).get("counts_seeds") is False for row in rows),
            "chart": charts.dots(shown, label=label) if shown else None,
            "left_out": len(known) - len(shown),
        }


def comparisons(results: Dict, each: list[Dict]) -> Iterator[Dict]:
    """Every pair while they can be read; of very many, those that decide: with the best row and with the baselines."""
    given = dicts(results.get("comparisons"))
    many = len(given) > MOST_COMPARISONS
    shown = 0
    for group in [*each, {"name": None, "rows": []}]:
        known = {entry["name"] for entry in each}
        pairs = [
            pair
            for pair in given
            if (str(pair.get("task")) == group["name"] if group["name"] else str(pair.get("task")) not in known)
        ]
        if not pairs:
            continue
        kept = pairs
        if many:
            best = {str(row.get("name")) for row in group["rows"][:1]}
            floor = {str(row.get("name")) for row in group["rows"] if row.get("baseline")}
            names = [({str(pair.get("first")), str(pair.get("second"))}, pair) for pair in pairs]
            kept = [pair for both, pair in names if both & best]
            kept += [pair for both, pair in names if both & floor and not both & best]
            kept = kept[: max(10, MOST_KEPT - shown)]
        shown += len(kept)
        span = _span(kept, {str(row.get("name")) for row in group["rows"] if row.get("guesses")})
        yield {
            "name": group["name"] or str(pairs[0].get("task")),
            "pairs": [{**pair, "strip": charts.strip(pair, span)} for pair in kept],
            "left_out": len(pairs) - len(kept),
            "smallest": any(number(pair.get("smallest")) is not None for pair in kept),
        }


def _span(pairs: list[Dict], floor: set[str]) -> tuple[float, float]:
    """The differences that are drawn: all between real rows, and of those from the floor what is not too far."""
    low, high = -0.01, 0.01
    for pair in pairs:
        far = {str(pair.get("first")), str(pair.get("second"))} & floor
        for key in ("low", "high"):
            if (end := number(pair.get(key))) is not None:
                end = max(-REACH, min(REACH, end)) if far else max(-1.0, min(1.0, end))
                low, high = min(low, end), max(high, end)
    return low, high


def _line(curve: Dict, key: str) -> charts.Line:
    pairs = zip(curve.get("epochs") or [], curve.get(key) or [], strict=False)
    return [(x, y) for a, b in pairs if (x := number(a)) is not None and (y := number(b)) is not None]


def _split_curves(row: Dict, key: str) -> tuple[list[charts.Line], list[charts.Line], charts.Line]:
    """Lines of the chosen rates, lines of the others, and the places of the chosen epochs."""
    picks = {plain(pick.get("seed")): pick for pick in dicts(row.get("chosen"))}
    chosen, others, marks = [], [], []
    for curve in dicts(row.get("curves")):
        line = _line(curve, key)
        pick = picks.get(plain(curve.get("seed")))
        if not line:
            continue
        if pick is not None and pick.get("learning_rate") not in (None, curve.get("learning_rate")):
            others.append(line)
            continue
        chosen.append(line)
        if pick is not None:
            marks += [(x, y) for x, y in line if x == pick.get("epoch")]
    return (chosen, others, marks) if chosen else (others, [], [])


def learning(each: list[Dict]) -> Iterator[Dict]:
    for group in each:
        lines = {key: {id(row): _split_curves(row, key) for row in group["rows"]} for key in ("dev_accuracy", "loss")}
        spans = {}
        for key, least, inside in (("dev_accuracy", 0.04, (0.0, 1.0)), ("loss", 0.05, (0.0, float("inf")))):
            values = [y for some in lines[key].values() for part in some[:2] for line in part for _, y in line]
            spans[key] = around(values, least=least, inside=inside, about=4) if values else (0.0, 1.0)
        cards = []
        for row in group["rows"]:
            accuracy, loss = lines["dev_accuracy"][id(row)], lines["loss"][id(row)]
            drawn: list[tuple[str, Markup]] = []
            for title, key, some in (("dev accuracy, %", "dev_accuracy", accuracy), ("training loss", "loss", loss)):
                if some[0]:
                    label = f"{title} by epoch: {row.get('name')}"
                    share = key == "dev_accuracy"
                    marks = some[2] if share else []
                    chart = charts.curves(some[0], some[1], span=spans[key], label=label, share=share, marks=marks)
                    drawn.append((title, chart))
            if drawn:
                cards.append(
                    {"row": row, "charts": drawn, "lines": len(accuracy[0] or loss[0]), "others": len(loss[1])}
                )
        if cards:
            yield {"name": group["name"], "cards": cards}


def _confusion_card(row: Dict, labels: list[str]) -> Dict | None:
    matrix = row.get("confusion")
    if not isinstance(matrix, list) or not matrix or not all(isinstance(line, list) for line in matrix):
        return None
    size = len(matrix)
    names = [labels[index] if index < len(labels) else str(index) for index in range(size)]
    counts = [[number(cell) or 0.0 for cell in line[:size]] for line in matrix]
    card: Dict = {"row": row, "labels": names, "classes": _classes(row, names)}
    if size <= MOST_CLASSES:
        card["lines"] = [
            (name, [(cell, cell / (sum(line) or 1), down == right) for right, cell in enumerate(line)])
            for down, (name, line) in enumerate(zip(names, counts, strict=True))
        ]
        return card
    wrong = [
        (cell, names[down], names[right], cell / (sum(line) or 1))
        for down, line in enumerate(counts)
        for right, cell in enumerate(line)
        if down != right and cell > 0
    ]
    card["worst"] = sorted(wrong, key=lambda each: -each[0])[:MOST_CLASSES]
    return card


def _classes(row: Dict, names: list[str]) -> list[tuple[str, Dict]]:
    given = row.get("per_class")
    if not isinstance(given, dict):
        return []
    return [(name, given[name]) for name in names[:MOST_LABELS] if isinstance(given.get(name), dict)]


def confusions(each: list[Dict]) -> Iterator[Dict]:
    for group in each:
        labels = [str(label) for label in group["task"].get("labels") or []]
        cards = [card for row in group["rows"] if (card := _confusion_card(row, labels))]
        if cards:
            yield {"name": group["name"], "cards": cards, "wide": max(len(card["labels"]) for card in cards)}


def calibrations(each: list[Dict]) -> Iterator[Dict]:
    for group in each:
        cards = []
        for row in group["rows"]:
            if bins := dicts(row.get("reliability")):
                label = f"how sure against how often right: {row.get('name')}"
                cards.append({"row": row, "chart": charts.reliability(bins, label=label)})
        if cards:
            yield {"name": group["name"], "cards": cards}


def costs(each: list[Dict]) -> Iterator[Dict]:
    for group in each:
        rows = [row for row in group["rows"] if row.get("cost")]
        if not rows:
            continue
        timed = [
            row for row in rows if (number(row["cost"].get("seconds")) or 0) > 0 and charts.accuracy_of(row) is not None
        ]
        label = f"accuracy against the time of a run on {group['name']}"
        chart = charts.cost(timed, label=label) if len(timed) > 1 else None
        yield {"name": group["name"], "rows": rows, "chart": chart}


def mistakes(results: Dict) -> Dict | None:
    """One list a row, in the order of the document, while there is room."""
    found: dict[tuple[str, str], Dict] = {}
    given = dicts(results.get("mistakes"))
    shown = 0
    for mistake in given:
        if shown == MOST_MISTAKES_IN_ALL:
            break
        key = str(mistake.get("task")), str(mistake.get("row") or "")
        entry = found.setdefault(key, {"task": key[0], "row": key[1], "mistakes": []})
        if len(entry["mistakes"]) < MOST_MISTAKES:
            entry["mistakes"].append(mistake)
            shown += 1
    return {"rows": list(found.values()), "left_out": len(given) - shown} if shown else None


def data(each: list[Dict]) -> Iterator[Dict]:
    for group in each:
        task = group["task"]
        if not task:
            continue
        splits = sorted(map(str, task.get("rows") or {}), key=_turn)
        balance = {str(split): task["balance"][split] for split in sorted(task.get("balance") or {}, key=_turn)}
        balance = {split: counts for split, counts in balance.items() if counts}
        labels = [str(label) for label in task.get("labels") or []]
        labels = labels or [str(label) for counts in balance.values() for label in counts]
        labels = list(dict.fromkeys(labels))
        lines = []
        for label in labels[:MOST_LABELS]:
            cells = []
            for counts in balance.values():
                total = sum(number(value) or 0 for value in counts.values())
                rows = number(counts.get(label)) or 0.0
                cells.append((count(rows), percent(rows / total if total else None), rows / total if total else 0.0))
            lines.append((label, cells))
        yield {
            "name": group["name"],
            "task": task,
            "splits": [(name, (task.get("rows") or {}).get(name)) for name in splits],
            "balance": list(balance),
            "labels": lines if balance else [],
            "left_out": max(0, len(labels) - MOST_LABELS) if balance else 0,
        }


def _turn(split: str) -> int:
    """Splits in the order in which they are used; JSON keeps them in that of the alphabet."""
    return SPLITS.index(split) if split in SPLITS else len(SPLITS)


def settings(each: list[Dict]) -> Dict | None:
    """What all rows share is said once; what is left of each row is how it differs."""
    rows = [(group["name"], row) for group in each for row in group["rows"] if isinstance(row.get("settings"), dict)]
    trained = [row["settings"] for _, row in rows if row["settings"]]
    if not trained:
        return None
    texts = [{str(key): plain(value) for key, value in one.items()} for one in trained]
    shared = {key: text for key, text in texts[0].items() if all(one.get(key) == text for one in texts)}
    if len(texts) == 1:
        return {"shared": shared, "rows": []}
    own = [
        (task, row, {str(key): plain(value) for key, value in row["settings"].items() if str(key) not in shared})
        for task, row in rows
        if row["settings"]
    ]
    return {"shared": shared, "rows": [entry for entry in own if entry[2]]}


def facts(results: Dict, each: list[Dict]) -> list[str]:
    """The line under the title."""
    rows = [row for group in each for row in group["rows"]]
    runs = sum(len(row.get("seeds") or []) for row in rows)
    told = [_many(len(each), "task"), _many(len(rows), "row"), _many(runs, "run")]
    if number(results.get("seconds")) is not None:
        told.append(f"{duration(results['seconds'])} of computing")
    if results.get("preset"):
        told.append(f"preset {results['preset']}")
    if results.get("pocketbert"):
        told.append(f"pocketbert {results['pocketbert']}")
    return told


def _many(size: int, noun: str) -> str:
    return f"{count(size)} {noun}" if size == 1 else f"{count(size)} {noun}s"
