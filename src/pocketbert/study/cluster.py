"""The same runs on a Ray cluster: for studies that outgrow one machine. Needs the extra: pip install pocketbert[ray].

Tasks and models are put into Ray's object store once, which keeps one copy a node; a job comes back as the files of
its run folders, and the driver writes them into the store, whole or not at all. A job whose worker or node is lost is
done again elsewhere. Ray passes messages as pickles among its own processes; no file of ours is one.
"""

import hashlib
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

from pocketbert import __version__
from pocketbert.catalog import find
from pocketbert.errors import UserError
from pocketbert.files import new_folder
from pocketbert.loading import load_folder
from pocketbert.locks import LOCK, lock
from pocketbert.manifest import MANIFEST
from pocketbert.methods import get_method
from pocketbert.study.messages import bank_message, task_from_json, task_to_json
from pocketbert.study.plan import Plan, PlannedRun, banks
from pocketbert.study.pool import TRIES, Event, Queue, Watch
from pocketbert.study.store import Store
from pocketbert.study.worker import do_bank

PATIENCE = 5.0  # seconds to wait for a cluster's first answer
CLIENT_PORT = "10001"  # where Ray's own client protocol listens, by default
SHIPPED = ("*.json", "*.safetensors", "vocab.txt", "1_Pooling/config.json")  # all we read of a model's folder


def run_on_ray(
    plan: Plan, store: Store, jobs: list[list[PlannedRun]], address: str, watch: Watch
) -> list[tuple[PlannedRun, str]]:
    """Do all jobs on a cluster that is running; the runs that failed, with the reason."""
    ray = _ray()
    _connect(ray, address)
    try:
        return _drive(ray, plan, store, jobs, watch)
    finally:
        ray.shutdown()


def _drive(
    ray: Any, plan: Plan, store: Store, jobs: list[list[PlannedRun]], watch: Watch
) -> list[tuple[PlannedRun, str]]:
    _refuse_impossible(ray, jobs)
    tasks = {name: ray.put(task_to_json(plan, name)) for name in plan.tasks}
    names = {run.model for job in jobs for run in job if run.model is not None}
    models = {name: ray.put(_files_of_model(name)) for name in names}
    parents: dict[str, Any] = {}  # finished runs that others start from
    # A process a job, as in the pool: one that did a larger run before would charge this one for its memory.
    remote = ray.remote(max_retries=TRIES, max_calls=1)(do_job)
    queue = Queue(jobs, [run.folder for run in plan.runs if store.finished(run)])
    waiting: dict[Any, list[PlannedRun]] = {}
    while True:
        while (job := queue.take()) is not None:
            first = job[0]
            messages = [bank_message(bank, plan, store) for bank in banks(job)]
            model = models[first.model] if first.model is not None else None
            ancestors = plan.ancestors(first)
            for folder in ancestors:
                if folder not in parents:
                    parents[folder] = ray.put(_files_of_run(store.runs / folder))
            threads = first.settings.threads or 1
            limits = {"env_vars": {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}}
            sent = remote.options(num_cpus=threads, runtime_env=limits).remote(
                messages, tasks[first.task], first.model, model, __version__, ancestors, *map(parents.get, ancestors)
            )
            waiting[sent] = job
            for run in job:
                watch(Event(run, "began"))
        if not waiting:
            return queue.failures
        ready, _ = ray.wait(list(waiting), num_returns=1)
        job = waiting.pop(ready[0])
        try:
            results = ray.get(ready[0])
        except ray.exceptions.RayError as error:
            lost_all = {"failed": f"lost on the cluster: {str(error).strip().splitlines()[0]}"}
            results = dict.fromkeys((run.folder for run in job), lost_all)
        for run in job:
            result = results[run.folder]
            if "files" in result:
                _write(store.runs / run.folder, result["files"])
                queue.done(run)
                watch(Event(run, "done"))
            else:
                for lost, why in queue.failed(run, result["failed"]):
                    watch(Event(lost, "failed", message=why))


def _refuse_impossible(ray: Any, jobs: list[list[PlannedRun]]) -> None:
    """What no node could ever do would wait for ever; what is not shipped would be looked for on the nodes."""
    most = max((node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]), default=0.0)
    for run in (run for job in jobs for run in job):
        if (run.settings.threads or 1) > most:
            raise UserError(
                f"runs want {run.settings.threads} threads, and the largest node of the cluster has {most:g}"
            )
        files = get_method(run.method).local_files(run.settings)
        if files:
            raise UserError(f"'{files[0]}', which {run.method} reads, is not sent to a cluster; use local workers")


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UserError("workers ray: Ray is not installed; install it with: pip install 'pocketbert[ray]'") from None
    return ray


def _connect(ray: Any, address: str) -> None:
    where = address.partition("://")[2] or "auto"
    if where.rpartition(":")[2] == CLIENT_PORT:
        where = f"ray://{where}"
    try:
        known = _last_cluster() if where == "auto" else where
        if known is not None:
            _knock(known.removeprefix("ray://"))
        ray.init(address=where, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(
            f"workers {address}: no Ray cluster answers ({first}); start one with: ray start --head, and give its "
            f"address as ray://HOST:6379"
        ) from error


def _last_cluster() -> str | None:
    """Where Ray was told a cluster is, or last began one on this machine; it may have ended since."""
    path = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir())) / "ray" / "ray_current_cluster"
    return os.environ.get("RAY_ADDRESS") or (path.read_text(encoding="utf-8").strip() if path.is_file() else None)


def _knock(address: str) -> None:
    """Is anybody there? Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{address!r} is not HOST:PORT")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE):
        pass


def _files_of_model(name: str) -> dict[str, bytes] | None:
    """A model's files; None for a shape, which every node knows."""
    folder = find(name).folder
    if folder is None:
        return None
    paths = {path for pattern in SHIPPED for path in folder.glob(pattern) if path.is_file()}
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(paths)}


def _files_of_run(folder: Path) -> dict[str, bytes]:
    """A run's files, but for what only its writer needs."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != LOCK]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Files as a folder, there whole or not at all: a run's manifest comes with the rename."""
    with new_folder(folder, overwrite=True) as part:
        for name, content in files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


# -- what follows happens on a node ----------------------------------------------------------------------------------


def do_job(
    messages: list[dict[str, Any]],
    task: dict[str, Any],
    model: str | None,
    files: dict[str, bytes] | None,
    version: str,
    ancestors: list[str],
    *parents: dict[str, bytes],
) -> dict[str, dict[str, Any]]:
    """Do the runs of a job in a folder of this node; for each, the files of its run folder, or why it failed."""
    if version != __version__:
        wrong = {"failed": f"this node has pocketbert {__version__}, the driver {version}"}
        return dict.fromkeys((folder for message in messages for folder in message["seeds"].values()), wrong)
    node = Path(tempfile.gettempdir()) / f"pocketbert-{os.getuid() if hasattr(os, 'getuid') else 'node'}"
    base = load_folder(_unpack(node, model, files), model) if model is not None and files is not None else None
    loaded = task_from_json(task)
    results: dict[str, dict[str, Any]] = {}
    for message in messages:
        with tempfile.TemporaryDirectory(prefix="pocketbert-run-") as temporary:
            runs = Path(temporary)
            for name, content in zip(ancestors, parents, strict=True):
                _write(runs / name, content)
            heard: list[dict[str, Any]] = []
            do_bank(message, loaded, runs, heard.append, base)
            why = heard[-1].get("failed") or heard[-1].get("stop", "")
            for folder in message["seeds"].values():
                finished = (runs / folder / MANIFEST).is_file()
                results[folder] = {"files": _files_of_run(runs / folder)} if finished else {"failed": why}
    return results


def _unpack(node: Path, model: str, files: dict[str, bytes]) -> Path:
    """The model's folder on this node, written by the first job that needs it."""
    digest = hashlib.blake2b(model.encode(), digest_size=12)
    for name, content in sorted(files.items()):
        digest.update(name.encode() + hashlib.blake2b(content).digest())
    folder = node / "models" / digest.hexdigest()
    with lock(node / "models", wait=120.0):
        if not folder.is_dir():
            _write(folder, files)
    return folder
