"""Tasks: labelled text, built in or a person's own; read, checked and cut into splits."""

from pocketbert.tasks.check import Check, Overlap, check_overlap, check_task, overlap
from pocketbert.tasks.load import list_tasks, load_task
from pocketbert.tasks.read import Rows, read_rows
from pocketbert.tasks.registry import Source, sources
from pocketbert.tasks.split import cut_split, normalise
from pocketbert.tasks.task import Split, Task

__all__ = [
    "Check",
    "Overlap",
    "Rows",
    "Source",
    "Split",
    "Task",
    "check_overlap",
    "check_task",
    "cut_split",
    "list_tasks",
    "load_task",
    "normalise",
    "overlap",
    "read_rows",
    "sources",
]
