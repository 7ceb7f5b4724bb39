"""The page around every report: one HTML file with its style inside; nothing is fetched and nothing runs.

Names and texts come from anywhere, so whatever is no `Markup` is escaped, the page forbids itself scripts and requests
(its Content-Security-Policy), and characters that no page may hold are taken out at the end.
"""

import functools
import re
from importlib import resources

from markupsafe import Markup

CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
PAGE = Markup("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title} – pocketbert</title>
<style>
{style}
</style>
</head>
<body>
{body}
</body>
</html>
""")


@functools.cache
def packaged(name: str) -> str:
    """A text file of this package."""
    return resources.files("pocketbert.report").joinpath(name).read_text(encoding="utf-8")


def page(title: str, body: Markup) -> str:
    text = PAGE.format(title=title, style=Markup(packaged("style.css")), body=body)
    return CONTROLS.sub("", text).encode("utf-8", "replace").decode("utf-8")
