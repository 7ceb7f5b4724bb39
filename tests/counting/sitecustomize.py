"""Put on a Python's path, it notes into a file which files were opened, and what was normalised and tokenised.

Python imports a module of this name at its start, so that the workers of a study are counted, too.
"""

import importlib.util
import os
import sys

LOG, WATCHED = os.environ.get("COUNTING_LOG"), os.environ.get("COUNTING_FILE", "")


def note(what: str, which: object) -> None:
    with os.fdopen(os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a", encoding="utf-8") as file:
        file.write(f"{what}\t{which!r}\n")


def count_normalise(module) -> None:
    plain = module.normalise

    def normalise(text: str) -> str:
        note("normalised", text)
        return plain(text)

    module.normalise = normalise


def count_tokenizer(module) -> None:
    plain = module.Tokenizer.__call__

    def call(self, texts, second_texts=None, *, max_length=None):
        for text in texts:
            note("tokenised", text)
        return plain(self, texts, second_texts, max_length=max_length)

    module.Tokenizer.__call__ = call


COUNTERS = {"pocketbert.tasks.normalise": count_normalise, "pocketbert.tokenizer": count_tokenizer}


class Finder:
    """Lets a module be loaded as it would be, then counts what it does."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in COUNTERS:
            return None
        sys.meta_path.remove(Finder)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, Finder)
        load = spec.loader.exec_module

        def exec_module(module) -> None:
            load(module)
            COUNTERS[name](module)

        spec.loader.exec_module = exec_module
        return spec


def opened(event: str, arguments: tuple) -> None:
    if event == "open" and os.fspath(arguments[0] if isinstance(arguments[0], str) else "") == WATCHED:
        note("opened", WATCHED)


if LOG:
    sys.meta_path.insert(0, Finder)
    sys.addaudithook(opened)
