"""The runs that a service has loaded: each by a name, what they have in common in memory once, texts in, rows out.

A text becomes an `Item`, its tokens, before it is queued, so that its length is known. Batches are computed in
few shapes: the library below torch keeps what it prepares for each, and with shapes of every kind memory grows.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pocketbert.errors import UserError
from pocketbert.metrics import softmax
from pocketbert.run_files import probability_columns
from pocketbert.runs import OWN_ENCODER, Run, load_run
from pocketbert.study.final import recommended_run
from pocketbert.tasks import Split
from pocketbert.tasks.texts import MOST_READ, is_blank
from pocketbert.training.batches import by_length, round_up_to_bucket
from pocketbert.training.fit import NetworkFitted
from pocketbert.training.job import Fitted

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # numbers of rows that are computed at once
REPORT = "report.html"

Texts = Sequence[str]  # one text, or the two of a pair


@dataclass(frozen=True, eq=False, slots=True)
class Item:
    """One text, or pair, ready for its model."""

    texts: Texts
    ids: np.ndarray | None  # tokens, for a network; None for a model that reads the text itself
    second_start: int  # where the second text begins
    tokens: int  # what it costs: tokens, or words where there are none
    truncated: bool


class LoadedModel:
    """One run that answers."""

    def __init__(self, name: str, run: Run, *, report: Path | None = None) -> None:
        self.name, self.run, self.report = name, run, report
        self.labels, self.pair = run.labels, bool(run.metadata["pair"])
        self.fitted: Fitted = run.fitted()
        self.network = self.fitted.network if isinstance(self.fitted, NetworkFitted) else None
        if self.network is not None:
            self.network.requires_grad_(False)

    @property
    def max_length(self) -> int | None:
        """Tokens that are read of a text; None: all of it."""
        return self.fitted.settings.max_length if isinstance(self.fitted, NetworkFitted) else None

    def metadata(self) -> dict[str, Any]:
        """What `GET /v1/models` says of it."""
        scores = self.run.metrics["scores"]
        best = scores.get("test", scores.get("dev"))
        accuracy = None
        if best is not None and "accuracy" in best:
            accuracy = {name: best[name] for name in ("rows", "accuracy", "low", "high")}
            accuracy["split"] = "test" if "test" in scores else "dev"
        config = None if self.network is None else self.network.encoder.config
        return {
            "name": self.name,
            "task": self.run.metadata["task"],
            "labels": list(self.labels),
            "pair": self.pair,
            "method": self.run.metadata["method"],
            "model": _without_folders(self.run.metadata["model"]),
            "max_length": self.max_length,
            "layers": None if config is None else config.layers,
            "heads": None if config is None else config.heads,
            "accuracy": accuracy,
            "columns": [self.run.columns.get(name) for name in (("text", "text2") if self.pair else ("text",))],
            "probability_columns": probability_columns(self.labels),
            "report": None if self.report is None else f"/reports/{self.name}",
        }

    def items(self, texts: Sequence[Texts]) -> list[Item]:
        """Texts as they are queued. Blank ones are not for a model: leave them out before."""
        cut = [[text[:MOST_READ] for text in row] for row in texts]
        long = [any(len(text) > MOST_READ for text in row) for row in texts]
        if not isinstance(self.fitted, NetworkFitted):
            words = (sum(text.count(" ") + 1 for text in row) for row in cut)
            return [Item(row, None, 0, count, was_long) for row, count, was_long in zip(cut, words, long, strict=True)]
        second = [row[1] for row in cut] if self.pair else None
        encoded = self.fitted.tokenizer([row[0] for row in cut], second, max_length=self.max_length)
        lengths = encoded.lengths
        return [
            Item(
                row,
                encoded.row(number),
                int(encoded.second_starts[number]),
                int(lengths[number]),
                long[number] or bool(encoded.cut[number]),
            )
            for number, row in enumerate(cut)
        ]

    def probabilities(self, items: Sequence[Item]) -> np.ndarray:
        """(items, labels), rows sum to one: what `predict` says of the same texts."""
        if self.network is None:
            first, *second = zip(*(item.texts for item in items), strict=True)
            return self.fitted.predict(Split(list(first), list(second[0]) if second else None, None)).probabilities
        results: np.ndarray | None = None
        with torch.inference_mode():
            for rows in by_length(np.array([item.tokens for item in items]), ROWS[-1]):
                batch = self.tensors([items[row] for row in rows])
                got = self.network(batch, self.fitted.task)[: len(rows)].numpy()  # type: ignore[attr-defined]
                if results is None:
                    results = np.empty((len(items), got.shape[1]), dtype=got.dtype)
                results[rows] = got
        assert results is not None
        return softmax(results)

    def tensors(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """A padded batch, in one of few shapes; rows too many are padding that nobody reads."""
        assert self.max_length is not None
        width = round_up_to_bucket(max(item.tokens for item in items), self.max_length)
        count = next((rows for rows in ROWS if rows >= len(items)), len(items))
        ids = np.full((count, width), self.fitted.tokenizer.padding_id, dtype=np.int64)  # type: ignore[attr-defined]
        mask, types = np.zeros((count, width), dtype=np.int64), np.zeros((count, width), dtype=np.int64)
        mask[len(items) :, 0] = 1
        for row, item in enumerate(items):
            assert item.ids is not None
            ids[row, : item.tokens] = item.ids
            mask[row, : item.tokens] = 1
            types[row, item.second_start : item.tokens] = 1
        tensors = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        return {**tensors, "token_type_ids": torch.from_numpy(types)} if self.pair else tensors

    def attention(self, item: Item, layer: int) -> np.ndarray:
        """(heads, tokens, tokens): how much each token attends to each, in one layer."""
        assert self.network is not None
        with torch.inference_mode():
            batch = {name: tensor[:, : item.tokens] for name, tensor in self.tensors([item]).items()}
            maps = self.network.encoder(**batch, attentions=True).attentions
        return maps[layer][0].numpy()

    def token_texts(self, item: Item) -> list[str]:
        """The tokens by name."""
        names = self.fitted.tokenizer.tokens  # type: ignore[attr-defined]
        return [names[number] for number in item.ids] if item.ids is not None else []


def _without_folders(name: str | None) -> str | None:
    """A model's name as anyone may know it: where its folder lies on this machine is nobody's concern."""
    return name if name is None or not Path(name).expanduser().is_absolute() else Path(name).name


def is_empty(texts: Texts) -> bool:
    """Is there a text with nothing in it? Whatever a model would say there, it says of nothing."""
    return any(map(is_blank, texts))


def load_models(folders: Sequence[Path], adapters: Sequence[Path] = ()) -> dict[str, LoadedModel]:
    """Runs, or what studies recommend, by name; adapters are runs that keep their encoder's name, and not its weights.

    Equal weights of different runs are held once: many adapters over one encoder cost one encoder.
    """
    models = {name: LoadedModel(name, run, report=report) for name, run, report in find_runs(folders, adapters)}
    share_weights(models.values())
    return models


def find_runs(folders: Sequence[Path], adapters: Sequence[Path] = ()) -> list[tuple[str, Run, Path | None]]:
    """Each run with its name, and its study's report where it is of one; nothing of the models is loaded yet."""
    found: list[tuple[Path, Run, Path | None]] = []
    for folder in map(Path, folders):
        runs = _runs_of(folder)
        found += [(folder if len(runs) == 1 else run.folder, run, report) for run, report in runs]
    for folder in map(Path, adapters):
        run = load_run(folder)
        if not run.method.needs_model or any((folder / "model" / own).exists() for own in OWN_ENCODER):
            raise UserError(
                f"--adapters {folder}: method '{run.metadata['method']}' keeps all it needs; give it as a RUN"
            )
        found.append((folder, run, None))
    names = _names([folder for folder, _, _ in found])
    return [(name, run, report) for name, (_, run, report) in zip(names, found, strict=True)]


def _runs_of(folder: Path) -> list[tuple[Run, Path | None]]:
    """A run, or the model of each task of a study, with the study's report."""
    if not (folder / "study.json").is_file():
        return [(load_run(folder), None)]
    from pocketbert.report.document import read_document

    report = folder / REPORT if (folder / REPORT).is_file() else None
    ready = [one.final for one in read_document(folder / "study.json").recommended if one.final is not None]
    if len(ready) < 2:
        return [(recommended_run(folder), report)]
    return [(load_run(folder / str(final)), report) for final in ready]


def _names(folders: Sequence[Path]) -> list[str]:
    """A name for each: the last part of its path that tells something; where two are alike, what comes before, too."""
    parts = [
        [re.sub(r"[^A-Za-z0-9._-]+", "-", part) for part in folder.resolve().parts[1:] if part != "final"] or ["run"]
        for folder in folders
    ]
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = ["-".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise UserError("the same run is named twice; name each once")


def share_weights(models: Any) -> None:
    """Let parameters with the same numbers be the same memory."""
    known: dict[bytes, Tensor] = {}
    for model in models:
        for parameter in model.network.parameters() if model.network is not None else ():
            content = parameter.detach().contiguous().numpy()
            digest = hashlib.blake2b(content.tobytes(), digest_size=16, key=repr(content.shape).encode()[:64]).digest()
            parameter.data = known.setdefault(digest, parameter.data)
