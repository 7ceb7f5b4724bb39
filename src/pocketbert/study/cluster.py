"""The same runs on a Ray cluster: for studies that outgrow one machine. Needs the extra: pip install pocketbert[ray].

Tasks and models are put into Ray's object store once, which keeps one copy a node; a job comes back as the files of
its run folders, and the driver writes them into the store, whole or not at all. A job whose worker or node is lost is
done again elsewhere. Ray passes messages as pickles among its own processes; no file of ours is one.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from pocketbert import __version__
from pocketbert.errors import UserError
from pocketbert.loading import load_folder
from pocketbert.manifest import MANIFEST
from pocketbert.methods import get_method
from pocketbert.study.messages import bank_message, task_from_json, task_to_json
from pocketbert.study.plan import Plan, PlannedRun, banks
from pocketbert.study.pool import TRIES, Event, Queue, Watch
from pocketbert.study.ray_shipping import connect, files_of_model, files_of_run, import_ray, unpack_model, write_files
from pocketbert.study.store import Store
from pocketbert.study.worker import do_bank


def run_on_ray(
    plan: Plan, store: Store, jobs: list[list[PlannedRun]], address: str, watch: Watch
) -> list[tuple[PlannedRun, str]]:
    """Do all jobs on a cluster that is running; the runs that failed, with the reason."""
    ray = import_ray()
    connect(ray, address)
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
    models = {name: ray.put(files_of_model(name)) for name in names}
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
                    parents[folder] = ray.put(files_of_run(store.runs / folder))
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
                write_files(store.runs / run.folder, result["files"])
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
    base = load_folder(unpack_model(node, model, files), model) if model is not None and files is not None else None
    loaded = task_from_json(task)
    results: dict[str, dict[str, Any]] = {}
    for message in messages:
        with tempfile.TemporaryDirectory(prefix="pocketbert-run-") as temporary:
            runs = Path(temporary)
            for name, content in zip(ancestors, parents, strict=True):
                write_files(runs / name, content)
            heard: list[dict[str, Any]] = []
            do_bank(message, loaded, runs, heard.append, base)
            why = heard[-1].get("failed") or heard[-1].get("stop", "")
            for folder in message["seeds"].values():
                finished = (runs / folder / MANIFEST).is_file()
                results[folder] = {"files": files_of_run(runs / folder)} if finished else {"failed": why}
    return results
