"""Predictions for many files, shards, one after the other or on a Ray cluster: a file in, a file of predictions out.

A shard goes to a node as bytes and comes back as bytes; only the driver writes, each output whole or not at all, and
then says so in predicted.json. So whatever is killed, node or driver, a row is written once: what is not in
predicted.json is done again, as a whole, to the same bytes.
"""

import glob
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pocketbert import __version__
from pocketbert.errors import UserError
from pocketbert.files import new_file, read_json, remove_leftovers, write_json
from pocketbert.folders import require_own_or_empty
from pocketbert.loading import load_folder
from pocketbert.locks import lock
from pocketbert.predict import predict_file
from pocketbert.runs import OWN_ENCODER, Run, load_run
from pocketbert.study.ray_shipping import connect, files_of_model, files_of_run, import_ray, unpack_model, write_files
from pocketbert.training.job import Fitted

PREDICTED = "predicted.json"  # in the folder of the outputs: what they were made with, and which are done
FORMAT = 1
MOST_BYTES = 2_000_000_000  # of a shard that is sent to a node
TRIES = 5  # on other nodes, when one is lost
ENDINGS = (".gz", ".parquet", ".csv", ".tsv", ".jsonl", ".json", ".txt")
NEEDED = ("settings.json", "metrics.json", "manifest.json", "seen.safetensors", "predictions.safetensors")

Tick = Callable[[int], None]


@dataclass(frozen=True)
class Shard:
    """A file of texts, and the name of what is made of it."""

    path: Path
    name: str


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Does it stand for many files?"""
    return glob.has_magic(str(path)) and not Path(path).exists()


def find_shards(pattern: str | os.PathLike[str]) -> list[Shard]:
    """The files that a pattern names, in the order of their names."""
    paths = sorted(Path(path) for path in glob.glob(str(pattern), recursive=True) if Path(path).is_file())
    if not paths:
        raise UserError(f"{pattern}: no file of such a name")
    shards = [Shard(path, f"{_stem(path.name)}.csv") for path in paths]
    taken: dict[str, Path] = {}
    for shard in shards:
        if shard.name in taken:
            raise UserError(f"{taken[shard.name]} and {shard.path} would both become {shard.name}; rename one")
        taken[shard.name] = shard.path
    return shards


def _stem(name: str) -> str:
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name or "shard"


def predict_shards(
    run: Run,
    pattern: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    workers: str | None = None,
    threads: int | None = None,
    tick: Tick | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Predict every file that a pattern names, into a folder of CSVs of the same names; go on where it was stopped.

    Args:
        run: what predicts.
        pattern: as "folder/*.parquet".
        out: the folder of the outputs; nothing else may be in it.
        workers: "ray", or "ray://HOST:PORT": on that cluster; None: here, one after the other.
        threads: of each prediction; on a cluster as many cores are asked for.
        tick: hears how many rows are done.
        options: those of `predict_file` for every file, as `text`.
    """
    folder = Path(out)
    if workers is not None and workers != "ray" and not workers.startswith("ray://"):
        raise UserError(f"workers {workers}: expected ray, or ray://HOST:PORT; without, files follow one another here")
    shards = find_shards(pattern)
    with lock(folder):
        record = _Record.open(folder, run, options)
        remove_leftovers(folder)
        done_before = [shard for shard in shards if record.is_done(shard)]
        rows = sum(record.shards[shard.name]["rows"] for shard in done_before)
        open_shards = [shard for shard in shards if shard not in done_before]
        results = (
            _one_after_the_other(run, open_shards, threads, options)
            if workers is None
            else _on_ray(run, open_shards, workers, threads or 1, options)
        )
        failures = []
        for shard, result in results:
            if "failed" in result:
                failures.append(f"{shard.path}: {result['failed']}")
                continue
            record.write(shard, result)
            rows += result["rows"]
            if tick is not None:
                tick(rows)
        if failures:
            more = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
            raise UserError(
                f"{len(failures)} of {len(shards)} files were not predicted: {'; '.join(failures[:3])}{more}. The "
                f"others are in {folder}; the same command again does what is missing"
            )
        return record.summary(shards, len(done_before))


class _Record:
    """predicted.json: what was predicted, by what, from what."""

    def __init__(self, folder: Path, made_with: dict[str, Any], shards: dict[str, dict[str, Any]]) -> None:
        self.folder, self.made_with, self.shards = folder, made_with, shards

    @classmethod
    def open(cls, folder: Path, run: Run, options: dict[str, Any]) -> "_Record":
        weights = {name: entry["sha256"] for name, entry in sorted(run.files.items()) if name.startswith("model/")}
        made_with = {
            "run": weights,
            "labels": list(run.labels),
            "options": {name: value for name, value in sorted(options.items()) if value not in (None, False)},
        }
        path = folder / PREDICTED
        if not path.is_file():
            require_own_or_empty(folder, "predictions")
            record = cls(folder, made_with, {})
            record._save()
            return record
        there = read_json(path)
        if there.get("format") != FORMAT or not isinstance(there.get("shards"), dict):
            raise UserError(f"{path}: not what this version writes; name another folder with --out")
        if there["made_with"] != made_with:
            raise UserError(f"{folder}: holds predictions of another run, or with other options; name another --out")
        return cls(folder, made_with, there["shards"])

    def is_done(self, shard: Shard) -> bool:
        """Is its output here, whole, and of the file as it is now?"""
        entry, target = self.shards.get(shard.name), self.folder / shard.name
        if entry is None or not target.is_file() or target.stat().st_size != entry["bytes"]:
            return False
        return entry["input"] == _digest(shard.path) and entry["output"] == _digest(target)

    def write(self, shard: Shard, result: dict[str, Any]) -> None:
        """First the output, then that it is there: a kill between the two has it made again, the same."""
        with new_file(self.folder / shard.name) as part:
            part.write_bytes(result["content"])
        self.shards[shard.name] = {
            "input": result["input"],
            "output": hashlib.sha256(result["content"]).hexdigest(),
            "bytes": len(result["content"]),
            **{name: result[name] for name in ("rows", "predicted", "empty", "truncated")},
        }
        self._save()

    def _save(self) -> None:
        write_json(self.folder / PREDICTED, {"format": FORMAT, "made_with": self.made_with, "shards": self.shards})

    def summary(self, shards: Sequence[Shard], before: int) -> dict[str, Any]:
        entries = [self.shards[shard.name] for shard in shards]
        names = self.made_with["labels"]
        return {
            "out": str(self.folder),
            "files": len(shards),
            "files_done_before": before,
            "rows": sum(entry["rows"] for entry in entries),
            "labels": names,
            "predicted": {name: sum(entry["predicted"][name] for entry in entries) for name in names},
            "empty": sum(entry["empty"] for entry in entries),
            "truncated": sum(entry["truncated"] for entry in entries),
        }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _one_after_the_other(
    run: Run, shards: Sequence[Shard], threads: int | None, options: dict[str, Any]
) -> Iterator[tuple[Shard, dict[str, Any]]]:
    fitted = run.fitted() if shards else None
    for shard in shards:
        content = shard.path.read_bytes()
        yield shard, _predict_bytes(run, fitted, shard.path.name, content, threads, options)


def _predict_bytes(
    run: Run, fitted: Fitted | None, name: str, content: bytes, threads: int | None, options: dict[str, Any]
) -> dict[str, Any]:
    """A file's bytes → its predictions' bytes, and what is to be said of them."""
    with tempfile.TemporaryDirectory(prefix="pocketbert-shard-") as temporary:
        path, out = Path(temporary) / name, Path(temporary) / "out" / "predicted.csv"
        out.parent.mkdir()
        path.write_bytes(content)
        try:
            done = predict_file(run, path, out, threads=threads, fitted=fitted, **options)
        except UserError as error:
            return {"failed": str(error).replace(temporary + os.sep, "")}
        kept = {name: done[name] for name in ("rows", "predicted", "empty", "truncated")}
        return {**kept, "content": out.read_bytes(), "input": hashlib.sha256(content).hexdigest()}


# -- on a cluster ----------------------------------------------------------------------------------------------------


def _on_ray(
    run: Run, shards: Sequence[Shard], address: str, threads: int, options: dict[str, Any]
) -> Iterator[tuple[Shard, dict[str, Any]]]:
    if not shards:
        return
    for shard in shards:
        if shard.path.stat().st_size > MOST_BYTES:
            raise UserError(f"{shard.path}: larger than {MOST_BYTES:,} bytes, too much for one node; split it")
    base = _base_model(run)
    ray = import_ray()
    connect(ray, address)
    try:
        cores = max((node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]), default=0.0)
        if threads > cores:
            raise UserError(f"--threads {threads}: the largest node of the cluster has {cores:g} cores")
        files = {
            name: content
            for name, content in files_of_run(run.folder).items()
            if name.startswith("model/") or name in run.files or name in NEEDED
        }
        sent_run = ray.put(files)
        sent_model = ray.put(None if base is None else files_of_model(base))
        remote = ray.remote(max_retries=TRIES, num_cpus=threads)(predict_on_node)
        waiting: dict[Any, Shard] = {}
        left = list(reversed(shards))
        while left or waiting:
            # A few more than can be computed: what waits lies in the cluster's memory.
            most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1) // threads))
            while left and len(waiting) < most:
                shard = left.pop()
                content = ray.put(shard.path.read_bytes())
                sent = remote.remote(
                    __version__, sent_run, base, sent_model, shard.path.name, content, threads, options
                )
                waiting[sent] = shard
            ready, _ = ray.wait(list(waiting), num_returns=1)
            shard = waiting.pop(ready[0])
            try:
                result = ray.get(ready[0])
            except ray.exceptions.RayError as error:
                result = {"failed": f"lost on the cluster: {str(error).strip().splitlines()[0]}"}
            del ready
            yield shard, result
    finally:
        ray.shutdown()


def _base_model(run: Run) -> str | None:
    """The model that must be sent along, by name; None: the run has all it needs."""
    if not run.method.needs_model or any((run.folder / "model" / own).exists() for own in OWN_ENCODER):
        return None
    if run.metadata.get("from") is not None:
        raise UserError(
            f"{run.folder}: needs the run that it started from, which is not sent to a cluster; use no workers"
        )
    return str(run.metadata["model"])


def predict_on_node(
    version: str,
    run_files: dict[str, bytes],
    model: str | None,
    model_files: dict[str, bytes] | None,
    name: str,
    content: bytes,
    threads: int,
    options: dict[str, Any],
) -> dict[str, Any]:
    """What a node does with one shard."""
    if version != __version__:
        return {"failed": f"this node has pocketbert {__version__}, the driver {version}"}
    digest = hashlib.blake2b(digest_size=12)
    for file, value in sorted(run_files.items()):
        digest.update(file.encode() + hashlib.blake2b(value).digest())
    node = Path(tempfile.gettempdir()) / f"pocketbert-{os.getuid() if hasattr(os, 'getuid') else 'node'}"
    folder = node / "runs" / digest.hexdigest()
    with lock(node / "runs", wait=120.0):
        if not folder.is_dir():
            write_files(folder, run_files)
    base = unpack_model(node, model, model_files) if model is not None and model_files is not None else None
    try:
        run, fitted = _loaded(folder, base, model)
    except UserError as error:
        return {"failed": str(error)}
    return _predict_bytes(run, fitted, name, content, threads, options)


@lru_cache(maxsize=2)
def _loaded(folder: Path, base: Path | None, model: str | None) -> tuple[Run, Fitted]:
    """Once per process of a node."""
    run = load_run(folder)
    start = load_folder(base, model) if base is not None and model is not None else None
    return run, run.fitted(start)
