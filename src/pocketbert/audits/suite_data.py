"""Winogender and WinoBias, read where their files are (POCKETBERT_DATA); nothing of them is in this package.

Both were made for coreference. Here they are sentences in which nothing but the pronoun changes: a classifier of
single texts should not care.
"""

import re
from pathlib import Path

from pocketbert.audits.suite_files import made_suite
from pocketbert.audits.suites import Item, Suite, Texts
from pocketbert.errors import UserError
from pocketbert.tasks.registry import data_folders

GENDERS = {"male": "he", "female": "she", "neutral": "they"}
PRONOUN = {"he": "he", "him": "he", "his": "he", "she": "she", "her": "she"}


def winogender() -> Suite:
    """720 sentences about 60 occupations (Rudinger and others 2018): he, she, they. A template is an occupation."""
    path = _find("winogender/all_sentences.tsv")
    items: dict[str, Item] = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        name, _, text = line.partition("\t")
        parts = name.split(".")
        if len(parts) != 5 or parts[3] not in GENDERS or not text:
            raise UserError(f"{path}: not a sentence of Winogender: {line[:80]!r}")
        key = ".".join(parts[:3])
        item = items.setdefault(key, Item(key, parts[0], {}, tags={"occupation": parts[0]}))
        item.texts[GENDERS[parts[3]]] = (text,)
    return made_suite("winogender", list(items.values()), list(GENDERS.values()), pair=False)


def winobias() -> Suite:
    """Pro- and anti-stereotyped sentences (Zhao and others 2018), of both types, dev and test: he and she.

    A template is a sentence without its pronoun; the files pair each sentence with its counterpart line by line.
    """
    items: list[Item] = []
    left_out = 0
    for kind in ("type1", "type2"):
        for split in ("dev", "test"):
            pro, anti = (
                _find(f"winobias/data/{side}_stereotyped_{kind}.txt.{split}").read_text(encoding="utf-8").splitlines()
                for side in ("pro", "anti")
            )
            for number, lines in enumerate(zip(pro, anti, strict=True)):
                texts: dict[str, Texts] = {_group(line): (_plain(line),) for line in lines}
                if set(texts) != {"he", "she"}:
                    left_out += 1
                    continue
                occupation = _occupation(lines[0])
                tags = {"occupation": occupation, "stereotype": _group(lines[0])}
                items.append(Item(f"{kind} {split} {number + 1}", occupation, texts, tags=tags))
    notes = (f"{left_out:,} lines whose two sides are not he and she are left out",) if left_out else ()
    return made_suite("winobias", items, ["he", "she"], pair=False, notes=notes)


def women_by_occupation() -> dict[str, float]:
    """The share of women in each occupation, in per cent, where Winogender's statistics are available; else nothing."""
    try:
        path = _find("winogender/occupations-stats.tsv")
    except UserError:
        return {}
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return {cells[0]: float(cells[2]) for cells in lines if len(cells) > 2}


def _find(name: str) -> Path:
    for folder in data_folders():
        if (folder / name).is_file():
            return folder / name
    suite = name.partition("/")[0]
    raise UserError(f"suite {suite}: {name} is in none of the data folders; set POCKETBERT_DATA to the one that has it")


def _plain(line: str) -> str:
    return re.sub(r"[\[\]]", "", line.partition(" ")[2]).strip()


def _group(line: str) -> str:
    marked = [word.strip().lower() for word in re.findall(r"\[([^\]]+)\]", line)]
    return next((PRONOUN[word] for word in marked if word in PRONOUN), "")


def _occupation(line: str) -> str:
    marked = [word.strip().lower() for word in re.findall(r"\[([^\]]+)\]", line)]
    return next((word.rpartition(" ")[2] for word in marked if word not in PRONOUN), "")


DATA_SUITES = {"winogender": winogender, "winobias": winobias}
