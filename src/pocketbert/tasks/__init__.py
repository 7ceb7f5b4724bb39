"""Tasks: labelled text, built in or a person's own; read, checked and cut into splits."""

from pocketbert.tasks.check import Check, check_task
from pocketbert.tasks.load import list_tasks, load_task
from pocketbert.tasks.normalise import normalise
from pocketbert.tasks.read import Rows, read_rows
from pocketbert.tasks.registry import BuiltinTask, builtin_tasks
from pocketbert.tasks.split import cut_split
from pocketbert.tasks.task import Split, Task

__all__ = [
    "BuiltinTask",
    "Check",
    "Rows",
    "Split",
    "Task",
    "builtin_tasks",
    "check_task",
    "cut_split",
    "list_tasks",
    "load_task",
    "normalise",
    "read_rows",
]
