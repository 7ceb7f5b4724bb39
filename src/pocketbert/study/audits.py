"""A study's own audit: the recommended rows with small suites, in seconds, once the verdict is known."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pocketbert.audits import AuditResult, audit
from pocketbert.audits.before_after import before_and_after
from pocketbert.audits.predictors import as_predictors
from pocketbert.audits.result import BeforeAfter
from pocketbert.counterfactuals.words import word_set
from pocketbert.errors import UserError
from pocketbert.report.document import Document
from pocketbert.runs import Run
from pocketbert.study.results import Results
from pocketbert.study.rows import AUGMENTED
from pocketbert.study.store import Store
from pocketbert.tasks import Task

SUITES = ("pronouns", "names")
MOST_TRAININGS = 5  # of a row
LOOKED_AT = 200  # texts, to see whether they are English
COMMON = word_set("the a an and is are was of to in it that this for with not i you")
ENGLISH = 0.3  # of the texts have one of these words, at least


@dataclass(frozen=True)
class StudyAudits:
    """For the document: audits, rows before and after, and notes on what was not audited."""

    audits: tuple[AuditResult, ...] = ()
    augmented: tuple[BeforeAfter, ...] = ()
    notes: tuple[str, ...] = ()

    def into(self, document: Document) -> Document:
        return replace(document, audits=self.audits, augmented=self.augmented, notes=(*document.notes, *self.notes))


def audit_study(results: Results, store: Store) -> StudyAudits:
    """Every task's recommended row; and every row that has a twin which trained on both sides of each swap."""
    found: list[AuditResult] = []
    augmented: list[BeforeAfter] = []
    notes: list[str] = []
    for task, choice in results.recommended.items():
        if choice is None:
            continue
        if not is_english(results.plan.tasks[task]):
            notes.append(f"{task} is not audited: its texts do not look like English, and the suites are")
            continue
        scored = results.contenders(task)[choice[0].row]
        try:
            runs = [store.load(run) for run in scored.runs[:MOST_TRAININGS]]
            found += [replace(one, task=task, row=choice[0].row) for one in audit_row(runs)]
            augmented += _augmented(results, store, task)
        except UserError as error:  # a verdict is not lost because of it
            notes.append(f"{task} is not audited: {error}")
    return StudyAudits(tuple(found), tuple(augmented), tuple(notes))


def _augmented(results: Results, store: Store, task: str) -> Iterator[BeforeAfter]:
    rows = results.contenders(task)
    for name, after in rows.items():
        before = rows.get(name.removesuffix(AUGMENTED))
        if before is None or before is after:
            continue
        old, new = (as_predictors([store.load(run) for run in one.runs[:MOST_TRAININGS]]) for one in (before, after))
        for suite in SUITES:
            for one in before_and_after(old, new, suite, small=True):
                yield replace(one, task=task, row=before.row.name, after_row=name)


def audit_row(runs: list[Run]) -> Iterator[AuditResult]:
    """The trainings of one row, with each of the small suites; what it took is left out: it is never the same twice."""
    models = as_predictors(runs)
    for suite in SUITES:
        yield replace(audit(models, suite, small=True), elapsed=0.0)


def is_english(task: Task) -> bool:
    """Do enough of the texts have a common English word?"""
    split = task.splits.get("train") or next(iter(task.splits.values()))
    every = max(1, len(split) // LOOKED_AT)
    texts = split.texts[::every][:LOOKED_AT]
    return sum(bool(COMMON & set(text.lower().split())) for text in texts) >= ENGLISH * len(texts)
