"""Studies: many runs, one rule that chooses, statistics over them, one report."""

from pocketbert.study.plan import Plan, Row
from pocketbert.study.presets import list_presets
from pocketbert.study.study import Study, from_config

__all__ = ["Plan", "Row", "Study", "from_config", "list_presets"]
