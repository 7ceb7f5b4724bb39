"""The results of a study as a document (`study.json`), and its report: one HTML file that needs only a browser.

A report is made from the document alone, and knows nothing of how the numbers came about; so a finished study can be
shown again, and a study of somebody else too.
"""

from pocketbert.report.document import Document, read_document, write_document
from pocketbert.report.html import render, write_report

__all__ = ["Document", "read_document", "render", "write_document", "write_report"]
