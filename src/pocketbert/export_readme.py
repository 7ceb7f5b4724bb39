"""The lines with which an exported folder is used, as its README.md has them, and docs/export.md.

Each block takes `texts` and ends with `probabilities` and `labels`. UPPER-CASE words stand for what differs from run
to run. They are text in export_lines/, run by whoever has the exported folder, never by this package.
"""

from collections.abc import Sequence
from importlib.resources import files

_LINES = files("pocketbert") / "export_lines"
CLASSIFIER, AUTO_MODEL, ONNX = (
    (_LINES / f"{name}.txt").read_text(encoding="utf-8") for name in ("classifier", "auto_model", "onnx")
)
MEAN, CLS = "(states * mask).sum(dim=1) / mask.sum(dim=1)", "states[:, 0]"


def readme(block: str, labels: Sequence[str], **words: str | int) -> str:
    """The README.md of an exported folder."""
    for word, value in words.items():
        block = block.replace(word.upper(), str(value))
    return (
        "A text classifier, exported from pocketbert. Labels, in the order of the probabilities: "
        f"{', '.join(labels)}.\n\n```python\n{block}```\n"
    )
