"""Suites from a file: a table with the columns id, group, text, optionally text2, template, expected.

Rows with the same id are one item, told about different groups. A group that ends in * is a control for the group
without it. Rows without a template are a template each: their id.
"""

import itertools
from pathlib import Path

from pocketbert.audits.suites import OTHER, Item, Suite, Swap, Texts
from pocketbert.errors import UserError, quote
from pocketbert.files import RowWriter, new_output
from pocketbert.tasks import read_rows
from pocketbert.tasks.columns import listed

COLUMNS = ("id", "group", "text", "text2", "template", "expected")


def read_suite(path: Path, *, encoding: str = "utf-8") -> Suite:
    """A suite of one's own."""
    rows = read_rows(path, encoding=encoding)
    for name in COLUMNS[:3]:
        if name not in rows.columns:
            raise UserError(
                f"{path}: no column '{name}'; a suite has id, group and text; it has: {listed(rows.columns)}"
            )
    pair = "text2" in rows.columns
    items: dict[str, Item] = {}
    groups: dict[str, None] = {}
    for place, row in rows.places():
        cells = {name: str(row.get(name) or "").strip() for name in COLUMNS}
        for name in ("id", "group", "text", *(["text2"] if pair else [])):
            if not cells[name]:
                raise UserError(f"{path}: {place}: no {name}; every row of a suite has one")
        key, group = cells["id"], cells["group"]
        item = items.setdefault(key, Item(key, cells["template"] or key, {}, cells["expected"] or None))
        if group in item.texts:
            raise UserError(f"{path}: {place}: id {quote(key)} has group {quote(group)} twice")
        if (cells["template"] or key) != item.template or (cells["expected"] or None) != item.expected:
            raise UserError(f"{path}: {place}: the rows of id {quote(key)} differ in template or expected")
        texts: Texts = (cells["text"], cells["text2"]) if pair else (cells["text"],)
        item.texts[group] = texts
        groups[group] = None
    return made_suite(path.name, list(items.values()), list(groups), pair=pair)


def made_suite(name: str, items: list[Item], groups: list[str], *, pair: bool, notes: tuple[str, ...] = ()) -> Suite:
    """Every later group against every earlier one, where some item has both; groups with * are controls."""
    plain = [group for group in groups if not group.endswith(OTHER)]
    controls = [group for group in groups if group.endswith(OTHER)]
    for group in controls:
        if group[: -len(OTHER)] not in plain:
            raise UserError(f"{name}: group {quote(group)} is a control for '{group[:-1]}', which no row has")
    known = {group: {place for place, item in enumerate(items) if group in item.texts} for group in plain}
    swaps = [
        Swap(later, earlier, _control_of(earlier, later, controls))
        for earlier, later in itertools.combinations(plain, 2)
        if known[earlier] & known[later]
    ]
    if not swaps:
        have = ", ".join(plain)
        raise UserError(
            f"{name}: one side only: no id has two groups, so there is nothing to compare (groups: {have or 'none'}). "
            "Rows that tell the same of different groups have the same id"
        )
    alone = sum(len([group for group in item.texts if group in plain]) < 2 for item in items)
    if alone:
        notes = (*notes, f"{alone:,} of {len(items):,} items have one group only, and are left out")
    own = tuple(Swap(group, group[: -len(OTHER)], title=f"control of {group[:-1]}") for group in controls)
    return Suite(name, tuple(items), tuple(swaps), own, (), pair, notes)


def _control_of(earlier: str, later: str, controls: list[str]) -> str | None:
    found = [group for group in (earlier, later) if f"{group}{OTHER}" in controls]
    return f"control of {found[0]}" if found else None


def write_suite(suite: Suite, path: Path) -> None:
    """The items as the file that `read_suite` reads: to look at them, or to change them."""
    with new_output(path) as file:
        writer = RowWriter(file)
        writer.writerow([name for name in COLUMNS if name != "text2" or suite.pair])
        for item in suite.items:
            for group, texts in item.texts.items():
                writer.writerow([item.id, group, *texts, item.template, item.expected or ""])
