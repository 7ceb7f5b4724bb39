"""The report's section on audits: what happens when only a pronoun or a name changes, drawn beside the controls."""

from collections.abc import Iterator
from typing import Any

from pocketbert.report import charts
from pocketbert.report.document import Document

LEAST = 0.03  # points to either side that are drawn at least, so that small changes look small


def audits(document: Document) -> Iterator[dict[str, Any]]:
    """One table per audit: comparisons, then controls, with the same axis."""
    for one in document.audits:
        lines = [*one.comparisons, *one.controls]
        reach = max([LEAST, one.margin, *(max(abs(line.low), abs(line.high)) for line in lines)])
        yield {
            "audit": one,
            "lines": [
                (
                    line,
                    number >= len(one.comparisons),
                    charts.interval_strip(line.mean_change, line.low, line.high, (-reach, reach), clear=line.flagged),
                )
                for number, line in enumerate(lines)
            ],
        }
