"""Progress as the commands show it: always (pocketbert/progress.py has how)."""

from pocketbert.progress import duration, row_progress, training_progress

__all__ = ["duration", "row_progress", "training_progress"]
