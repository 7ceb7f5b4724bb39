"""How a Ray cluster is reached, and what is sent to it: a model's or a run's files, as bytes by name.

Nodes need no folder in common, and no file of ours is a pickle.
"""

import hashlib
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

from pocketbert.catalog import find
from pocketbert.errors import UserError
from pocketbert.files import new_folder
from pocketbert.locks import LOCK, lock

PATIENCE = 5.0  # seconds to wait for a cluster's first answer
CLIENT_PORT = "10001"  # where Ray's own client protocol listens, by default
SHIPPED = ("*.json", "*.safetensors", "vocab.txt", "1_Pooling/config.json")  # all we read of a model's folder


def import_ray() -> Any:
    """Ray itself, which is an extra."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UserError("workers ray: Ray is not installed; install it with: pip install 'pocketbert[ray]'") from None
    return ray


def connect(ray: Any, address: str) -> None:
    """To the cluster of ray://HOST:PORT; of "ray": the one on this machine."""
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


def files_of_model(name: str) -> dict[str, bytes] | None:
    """A model's files; None for a shape, which every node knows."""
    folder = find(name).folder
    if folder is None:
        return None
    paths = {path for pattern in SHIPPED for path in folder.glob(pattern) if path.is_file()}
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(paths)}


def files_of_run(folder: Path) -> dict[str, bytes]:
    """A run's files, but for what only its writer needs."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != LOCK]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Files as a folder, there whole or not at all: a run's manifest comes with the rename."""
    with new_folder(folder, overwrite=True) as part:
        for name, content in files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def unpack_model(node: Path, model: str, files: dict[str, bytes]) -> Path:
    """The model's folder on this node, written by the first job that needs it."""
    digest = hashlib.blake2b(model.encode(), digest_size=12)
    for name, content in sorted(files.items()):
        digest.update(name.encode() + hashlib.blake2b(content).digest())
    folder = node / "models" / digest.hexdigest()
    with lock(node / "models", wait=120.0):
        if not folder.is_dir():
            write_files(folder, files)
    return folder
