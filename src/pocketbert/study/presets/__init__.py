"""Published tables to do again, theirs beside ours. A preset is one file here, with the `register` decorator."""

from pocketbert.study.presets.preset import Preset, get_preset, list_presets

__all__ = ["Preset", "get_preset", "list_presets"]
