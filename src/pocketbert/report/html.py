"""A study's document in, its report out: the page's sections, in their order."""

import functools
import os

from jinja2 import Environment, Template
from markupsafe import Markup

from pocketbert.files import write_text
from pocketbert.report import sections, wording
from pocketbert.report.audits import audits
from pocketbert.report.document import Document
from pocketbert.report.page import packaged, page

TITLES = {
    "results": "Results",
    "published": "Beside published figures",
    "comparisons": "Which differences are real",
    "sizes": "Would more data help?",
    "learning": "Training curves",
    "confusions": "What is taken for what",
    "heat_maps": "Inside the methods",
    "calibrations": "Can its certainty be trusted?",
    "audits": "Does it treat people alike?",
    "augmented": "Before and after training on both sides",
    "mistakes": "The most certain mistakes",
    "suspects": "Labels that look wrong",
    "costs": "What it cost",
    "data": "The data",
    "probes": "Probes",
    "predicted": "Files predicted",
    "failures": "Runs that failed",
    "settings": "Settings and versions",
    "again": "Run it again",
}
FILTERS = ("percent", "points", "probability", "spread", "count", "short_count", "size", "duration", "plain", "clip")


@functools.cache
def _template() -> Template:
    """Compiled once: a study that writes its report after each run does it often."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {name: getattr(wording, name) for name in FILTERS}
    environment.globals["interval"] = wording.interval
    return environment.from_string(packaged("template.html.jinja"))


def render(document: Document) -> str:
    """The page as text. A section that has nothing to show is left out."""
    groups = sections.groups(document)
    parts = {
        "results": list(sections.result_tables(groups)),
        "published": document.published,
        "comparisons": list(sections.comparisons(document, groups)),
        "sizes": list(sections.sizes(document)),
        "learning": list(sections.learning(groups)),
        "confusions": list(sections.confusions(groups)),
        "heat_maps": document.heat_maps,
        "calibrations": list(sections.calibrations(groups)),
        "audits": list(audits(document)),
        "augmented": document.augmented,
        "mistakes": sections.mistakes(document),
        "suspects": document.suspects,
        "costs": list(sections.costs(groups)),
        "data": [sections.data(task) for task in document.tasks],
        "probes": document.probes,
        "predicted": document.predicted,
        "failures": document.failures,
        "settings": sections.settings(groups),
        "again": document.again,
    }
    body = _template().render(
        parts,
        document=document,
        facts=sections.facts(document),
        titles={key: title for key, title in TITLES.items() if parts[key]},
        open_cards=sections.OPEN_CARDS,
        most=sections.MOST_LINES,
        several=len(groups) > 1,
    )
    return page(wording.clip(document.name, 80), Markup(body))


def write_report(document: Document, path: str | os.PathLike[str]) -> None:
    """Write the report of a study as one HTML file, whole or not at all."""
    write_text(path, render(document))
