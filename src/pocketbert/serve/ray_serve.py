"""The same application as a Ray Serve deployment: for more requests than one machine can take.

Replicas on the nodes of a cluster, their number set by load; Ray Serve's proxies stand before them. The runs' files are
part of the deployment, so nodes need no folder in common, and a replica can start after whoever deployed it is gone.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pocketbert import __version__
from pocketbert.catalog import find
from pocketbert.errors import UserError
from pocketbert.locks import lock
from pocketbert.runs import OWN_ENCODER, Run
from pocketbert.serve.loaded import find_runs
from pocketbert.serve.options import ServeOptions
from pocketbert.study.ray_shipping import files_of_run, import_ray, write_files

MOST_BYTES = 300_000_000  # of all runs together: they go through the cluster's control plane
ONGOING = 400  # requests that a replica takes at once; its own queue says 429 long before
TARGET = 24  # requests under way, per replica, that the number of replicas is set by
BUNDLED = Path(__file__).parents[1] / "bundled"


def deployment(
    runs: Sequence[str | os.PathLike[str]],
    *,
    replicas: tuple[int, int] = (1, 8),
    threads: int = 1,
    token: str | None = None,
    allowed_hosts: Sequence[str] = (),
    **options: Any,
) -> Any:
    """What `ray.serve.run` takes: the service of these runs, as `pocketbert serve` has it.

    Args:
        runs: folders of runs or studies; the first is the default.
        replicas: at least, and at most; between them the load decides.
        threads: of each replica, and cores that it asks for.
        token: what a bearer must show.
        allowed_hosts: names under which the service may be asked for; empty: any.
        options: further fields of `ServeOptions`, as `batch_tokens`.
    """
    import_ray()
    try:
        from ray import serve
    except ImportError as error:
        raise UserError(f"Ray Serve needs more packages ({error.name}): pip install 'ray[serve]'") from None
    given = ServeOptions(
        tuple(map(str, runs)),
        host="0.0.0.0",
        threads=threads,
        token=token,
        allowed_hosts=tuple(allowed_hosts),
        **options,
    )
    if not 1 <= replicas[0] <= replicas[1]:
        raise UserError(f"replicas {replicas}: expected at least 1, and no less at most than at least")
    found = find_runs([Path(run) for run in runs])
    files = {name: files_of_run(run.folder) for name, run, _ in found}
    for name, run, _ in found:
        _refuse_what_is_not_sent(name, run)
    size = sum(len(content) for of_run in files.values() for content in of_run.values())
    if size > MOST_BYTES:
        raise UserError(f"the runs have {size:,} bytes; more than {MOST_BYTES:,} are too much for a deployment")
    plain = given.to_dict()

    def build() -> Any:
        from pocketbert.serve.ray_serve import build_on_node

        return build_on_node(plain, files, __version__)

    least, most = replicas
    return serve.deployment(
        name="pocketbert",
        autoscaling_config={
            "min_replicas": least,
            "max_replicas": most,
            "initial_replicas": least,
            "target_ongoing_requests": TARGET,
        },
        max_ongoing_requests=ONGOING,
        graceful_shutdown_timeout_s=given.limits.seconds,
        ray_actor_options={
            "num_cpus": threads,
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}},
        },
    )(serve.ingress(build)()).bind()


def _refuse_what_is_not_sent(name: str, run: Run) -> None:
    """A run that reads weights beside its own folder finds them on a node only if they come with pocketbert."""
    if not run.method.needs_model or any((run.folder / "model" / own).exists() for own in OWN_ENCODER):
        return
    model = run.metadata["model"]
    folder = None if run.metadata.get("from") is not None or model is None else find(model).folder
    if folder is None or not folder.is_relative_to(BUNDLED):
        raise UserError(f"{name}: needs weights that are not its own, which are not sent; fine-tune it, or use `serve`")


def build_on_node(plain: dict[str, Any], files: dict[str, dict[str, bytes]], version: str) -> Any:
    """In a replica: the runs unpacked, loaded, and the application around them."""
    from dataclasses import replace

    from pocketbert.runs import load_run
    from pocketbert.serve.app import create_app
    from pocketbert.serve.loaded import LoadedModel, share_weights
    from pocketbert.serve.server import make_service, warm_up

    if version != __version__:
        raise RuntimeError(f"this node has pocketbert {__version__}, the deployment {version}")
    node = Path(tempfile.gettempdir()) / f"pocketbert-{os.getuid() if hasattr(os, 'getuid') else 'node'}" / "served"
    models = {}
    for name, of_run in files.items():
        digest = hashlib.blake2b(digest_size=12)
        for file, content in sorted(of_run.items()):
            digest.update(file.encode() + hashlib.blake2b(content).digest())
        folder = node / digest.hexdigest()
        with lock(node, wait=120.0):
            if not folder.is_dir():
                write_files(folder, of_run)
        models[name] = LoadedModel(name, load_run(folder))
    share_weights(models.values())
    warm_up(models)
    options = replace(ServeOptions.from_dict(plain), workers=1)
    return create_app(make_service(options, models), token=options.token, hosts=options.hosts)
