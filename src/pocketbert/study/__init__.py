"""Studies: many runs, one rule that chooses, statistics over them, one report.

Names are imported when first used: a worker process needs only `worker`.
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "Plan": "pocketbert.study.plan",
    "Row": "pocketbert.study.plan",
    "Study": "pocketbert.study.study",
    "from_config": "pocketbert.study.study",
    "list_presets": "pocketbert.study.presets",
}
__all__ = ["Plan", "Row", "Study", "from_config", "list_presets"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'pocketbert.study' has no attribute {name!r}")
