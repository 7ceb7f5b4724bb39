"""Frozen features are computed once: all heads, rates and seeds of a frozen encoder share one pass over the texts.

They are kept on disk under a key made of everything that goes into them: weights, token ids (and so texts, tokenizer
and length), pooling, threads. The folder is bounded, oldest first, and safe to delete at any time.
"""

import contextlib
import hashlib
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pocketbert.errors import UserError
from pocketbert.files import home, new_file, remove_leftovers
from pocketbert.tokenizer import Encoded
from pocketbert.training.network import Network, read_all

MOST_BYTES = 2_000_000_000


def cache_folder() -> Path:
    return home() / "cache" / "features"


def features(network: Network, encoded: Encoded, *, weights: str, keep: bool = True) -> np.ndarray:
    """One vector a text. `weights` is the fingerprint of the encoder's."""
    device = str(next(network.parameters()).device)
    key = _key(encoded, weights, network.pooling, network.only_cls, device)
    path = cache_folder() / f"{key}.safetensors"
    if keep and path.is_file():
        try:
            found = load_file(path)["features"]
            with contextlib.suppress(OSError):
                path.touch()
            return found
        except (SafetensorError, OSError, KeyError):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    network.eval()
    computed = read_all(network.pool, encoded, device=device)
    if keep and computed.nbytes < MOST_BYTES // 2:
        with contextlib.suppress(UserError, OSError):  # a cache that cannot be written is no reason to stop
            with new_file(path) as part:
                save_file({"features": computed}, part)
            _bound(path.parent)
    return computed


def _key(encoded: Encoded, weights: str, pooling: str, only_cls: bool, device: str) -> str:
    digest = hashlib.blake2b(
        f"{weights} {pooling} {only_cls} {device} {torch.get_num_threads()}".encode(), digest_size=16
    )
    for array in (encoded.ids, encoded.starts, encoded.second_starts):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _bound(folder: Path) -> None:
    """Remove the files that were not used for longest until the rest fits."""
    remove_leftovers(folder)
    files = []
    for path in folder.iterdir():
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= MOST_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= size
