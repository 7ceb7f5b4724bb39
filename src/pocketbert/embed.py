"""Sentence vectors: `pb.encode(texts)`, and a file of texts to a .npy file of vectors."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pocketbert.catalog import usual_model
from pocketbert.errors import UserError
from pocketbert.files import new_output
from pocketbert.predict import refuse_target
from pocketbert.runs import is_run, load_run, load_start
from pocketbert.tasks import read_rows
from pocketbert.tasks.columns import choose_texts
from pocketbert.tasks.texts import Texts
from pocketbert.training.machine import computing
from pocketbert.training.network import Network, read_all
from pocketbert.training.settings import POOLINGS


class SentenceEncoder:
    """A model, or the encoder of a finished run, that gives one vector per text."""

    def __init__(self, model: str | None = None, *, pooling: str | None = None, max_length: int = 128) -> None:
        found = load_start(model or usual_model())
        if found.tokenizer is None:
            raise UserError(f"'{found.name}' is a shape with fresh weights; its vectors would mean nothing")
        if pooling is not None and pooling not in POOLINGS:
            raise UserError(f"pooling: {pooling!r} is not known; known are {', '.join(POOLINGS)}")
        if pooling == "pooler" and not found.has_pooler:
            raise UserError(f"model '{found.name}' has no pooler; use pooling cls or mean")
        self.tokenizer = found.tokenizer
        self.max_length = min(max_length, found.config.positions)
        self.width = found.config.width
        self.network = Network(found.encoder(), {}, pooling or found.pooling).eval()

    def __call__(self, texts: Sequence[str], second_texts: Sequence[str] | None = None) -> np.ndarray:
        """(texts, width), float32."""
        encoded = self.tokenizer(texts, second_texts, max_length=self.max_length)
        if not len(encoded):
            return np.zeros((0, self.width), dtype=np.float32)
        return read_all(self.network.pool, encoded)


def encode(
    texts: Sequence[str],
    model: str | None = None,
    *,
    pooling: str | None = None,
    max_length: int = 128,
    threads: int | None = None,
) -> np.ndarray:
    """One vector per text: (texts, width), float32.

    Args:
        texts: a list of texts.
        model: a name that `pocketbert models` lists, a folder, or `owner/model` on the Hub; None: the best available.
        pooling: pooler, cls or mean; None: the model's own.
        max_length: in tokens; longer texts are cut.
        threads: None: every core.
    """
    with computing(threads):
        return SentenceEncoder(model, pooling=pooling, max_length=max_length)(texts)


def encode_file(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    model: str | None = None,
    *,
    text: str | None = None,
    pooling: str | None = None,
    max_length: int = 128,
    encoding: str = "utf-8",
    threads: int | None = None,
    tick: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """A file of texts to a .npy file of vectors, a row each; with - as `out`, to standard output.

    `model`: a name, a folder, or the folder of a finished run, whose column of texts is then read.
    Memory does not grow with the file.
    """
    rows = read_rows(Path(path), encoding=encoding)
    learnt = load_run(model).columns if model is not None and is_run(model) else None
    columns, notes = choose_texts(rows, text, None, pair=False, learnt=learnt)
    rows = rows.narrow(*columns)
    taken = Texts(rows, columns)
    refuse_target(path, out)
    encoder = SentenceEncoder(model, pooling=pooling, max_length=max_length)
    count = sum(1 for _ in rows)
    done = 0
    header = {"descr": "<f4", "fortran_order": False, "shape": (count, encoder.width)}
    with computing(threads), new_output(out, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in rows.chunks():
            texts = [text for place, row in chunk for text in taken.take(place, row)]
            file.write(encoder(texts).astype("<f4").tobytes())
            done += len(chunk)
            if tick is not None:
                tick(done)
    return {"rows": done, "width": encoder.width, "out": str(out), "said": [*notes, *taken.notes()]}
