"""The report of a study: one HTML file that needs no network and no program but a browser.

It is made from one plain dictionary, the content of `study.json`, and knows nothing of how the numbers came about; so
an old study can be shown again by a newer pocketbert, and a study of somebody else too.
"""

from pocketbert.report.html import render, write_report

__all__ = ["render", "write_report"]
