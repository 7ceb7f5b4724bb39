"""Every lesson by name. A new one is one new file beside this one."""

import importlib
import pkgutil
from functools import cache

from pocketbert.errors import UserError
from pocketbert.lessons.lesson import LESSONS, Lesson, LessonPage

# The way through them: each needs only what came before. Those not named here follow by name.
ORDER = (
    "xor",
    "linear-collapse",
    "vanishing",
    "softmax",
    "attention",
    "heads",
    "positions",
    "layernorm",
    "parameters",
    "mlm",
    "bert-facts",
    "forgetting",
    "decoding",
)


@cache
def _find_all() -> None:
    package = importlib.import_module("pocketbert.lessons")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"pocketbert.lessons.{module.name}")


def list_lessons() -> dict[str, Lesson]:
    """Every lesson by name, in the order in which to read them."""
    _find_all()
    places = {name: place for place, name in enumerate(ORDER)}
    return dict(sorted(LESSONS.items(), key=lambda item: (places.get(item[0], len(places)), item[0])))


def get_lesson(name: str) -> Lesson:
    known = list_lessons()
    if name not in known:
        raise UserError(f"lesson '{name}' is not known; known are {', '.join(known)}")
    return known[name]


def run_lesson(name: str) -> LessonPage:
    """Run a lesson: compute everything it claims. `.holds`, `.values`, `.markdown()`, `.figure`, `.to_dict()`."""
    return get_lesson(name).run()
