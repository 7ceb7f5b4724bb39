"""`study.json` in, one HTML file out. Style and charts are inside it; nothing is fetched and nothing runs.

Names and texts in a study come from anywhere, so the template escapes all of them, the page forbids itself scripts
and requests (its Content-Security-Policy), and characters that no page may hold are taken out at the end.
"""

import functools
import os
import re
from importlib import resources
from typing import Any

from jinja2 import Environment, Template
from markupsafe import Markup

from pocketbert.errors import UserError
from pocketbert.files import write_text
from pocketbert.report import sections, wording

FORMAT = 1
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")

TITLES = {
    "results": "Results",
    "published": "Beside published figures",
    "comparisons": "Which differences are real",
    "learning": "Learning curves",
    "confusions": "What is taken for what",
    "calibrations": "Can its certainty be trusted?",
    "mistakes": "The most certain mistakes",
    "costs": "What it cost",
    "data": "The data",
    "probes": "Probes",
    "predicted": "Files predicted",
    "failures": "Runs that failed",
    "settings": "Settings and versions",
    "again": "Run it again",
}


def _file(name: str) -> str:
    return resources.files("pocketbert.report").joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _template() -> Template:
    """Read and compiled once: a study that writes its report after each run does it often."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    for name in ("percent", "points", "probability", "spread", "fixed", "count", "short_count", "size", "duration"):
        environment.filters[name] = getattr(wording, name)
    environment.filters |= {"plain": wording.plain, "clip": wording.clip}
    environment.globals["interval"] = wording.interval
    return environment.from_string(_file("template.html.jinja"))


def render(results: dict[str, Any]) -> str:
    """The page as text. Any key but `format` may be missing: its section is then left out."""
    if not isinstance(results, dict) or results.get("format", FORMAT) != FORMAT:
        told = results.get("format") if isinstance(results, dict) else type(results).__name__
        raise UserError(f"study.json: format {told} is not known here; this pocketbert reads format {FORMAT}")
    each = sections.groups(results)
    parts: dict[str, Any] = {
        "results": list(sections.result_tables(each)),
        "published": sections.dicts(results.get("published")),
        "comparisons": list(sections.comparisons(results, each)),
        "learning": list(sections.learning(each)),
        "confusions": list(sections.confusions(each)),
        "calibrations": list(sections.calibrations(each)),
        "mistakes": sections.mistakes(results),
        "costs": list(sections.costs(each)),
        "data": list(sections.data(each)),
        "probes": sections.dicts(results.get("probes")),
        "predicted": sections.dicts(results.get("predicted")),
        "failures": sections.dicts(results.get("failures")),
        "settings": _settings(results, each),
        "again": results.get("again"),
    }
    page = _template().render(
        parts,
        name=str(results.get("name") or "study"),
        facts=sections.facts(results, each),
        verdicts=[str(verdict) for verdict in results.get("verdicts") or []],
        said=[str(line) for line in results.get("said") or []],
        titles={key: title for key, title in TITLES.items() if parts[key]},
        style=Markup(_file("style.css")),
        open_cards=sections.OPEN_CARDS,
        most=sections.MOST_LINES,
        several=len(each) > 1,
    )
    return CONTROLS.sub("", page).encode("utf-8", "replace").decode("utf-8")


def _settings(results: dict[str, Any], each: list[dict[str, Any]]) -> dict[str, Any] | None:
    found = {
        "rows": sections.settings(each),
        "versions": results.get("versions") or {},
        "machine": results.get("machine") or {},
        "rule": results.get("rule"),
        "workers": results.get("workers"),
    }
    return found if any(value for value in found.values()) else None


def write_report(results: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the report of a study (the content of its `study.json`) as one HTML file, whole or not at all."""
    write_text(path, render(results))
