"""The Hugging Face Hub: fetch the few files we read, into the Hub's own cache, and say so when we cannot.

This is the only module that may open a connection, and only for a name the person gave.
"""

import socket
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from pocketbert.errors import UserError

READ = [
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
]
PICKLE = "pytorch_model.bin"
PATIENCE = 5.0  # seconds to wait for the Hub's first answer


def _reachable() -> bool:
    """Does somebody answer where the Hub is? Its library would ask again and again, for a minute, and say so each time.

    A proxy, where there is one, is asked by the library alone.
    """
    from huggingface_hub import constants

    place = urlsplit(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE or not place.hostname:
        return False
    if getproxies().get(place.scheme):
        return True
    try:
        port = place.port or (80 if place.scheme == "http" else 443)
        socket.create_connection((place.hostname, port), timeout=PATIENCE).close()
    except OSError:
        return False
    return True


def looks_like_hub_name(name: str) -> bool:
    """`owner/model`: one slash, no more, none of the marks of a path."""
    parts = name.split("/")
    return len(parts) == 2 and all(parts) and not name.startswith((".", "~", "/")) and "\\" not in name


def fetch(name: str, *, revision: str | None = None, pickle: bool = False) -> Path:
    """The folder of a model on the Hub, downloaded if it is not in the cache. Only the files we read."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    which = f"'{name}'" + (f" at revision '{revision}'" if revision else "")
    patterns = [*READ, PICKLE] if pickle else READ
    try:
        folder = Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=patterns,
                etag_timeout=PATIENCE,
                local_files_only=not _reachable(),
            )
        )
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, ConnectionError, TimeoutError) as error:
        raise UserError(
            f"{which}: no such folder; as a model of the Hub it is not in the local cache, and the Hub cannot be "
            "reached. Without a network, use a model that is available here (pocketbert models) or the path of a folder"
        ) from error
    except RevisionNotFoundError as error:
        raise UserError(f"{which}: the Hub has the model but not this revision") from error
    except RepositoryNotFoundError as error:
        raise UserError(
            f"{which}: no such folder, and no such model on the Hub (or it is private); look at its spelling"
        ) from error
    except HFValidationError as error:
        raise UserError(f"{which}: neither a folder, nor a name of a model, nor one the Hub allows: {error}") from error
    if not pickle and not any(folder.glob("*.safetensors")):
        raise UserError(
            f"{which} has no safetensors on the Hub. If it has {PICKLE}, a pickle, which can run code when read, and "
            f"you trust its origin, convert it once: pocketbert models import {name} --allow-pickle"
        )
    return folder


def fetch_data(dataset: str, path: str, *, revision: str | None = None) -> Path:
    """One file of a data set on the Hub."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    reachable = _reachable()
    try:
        found = hf_hub_download(
            dataset,
            path,
            repo_type="dataset",
            revision=revision,
            etag_timeout=PATIENCE,
            local_files_only=not reachable,
        )
    except LocalEntryNotFoundError as error:
        raise UserError(
            f"cannot get {path} of {dataset} from the Hub: it is not in the local cache, and the Hub cannot be "
            "reached. Check the connection (and that HF_HUB_OFFLINE is not set), or put the files in a data folder"
        ) from error
    except (OSError, ValueError) as error:  # the library's own, HTTP ones included, are one of these
        first = str(error).strip().split("\n")[0]
        raise UserError(
            f"cannot get {path} of {dataset} from the Hub: {first}. "
            "Check the connection (and that HF_HUB_OFFLINE is not set), or put the files in a data folder"
        ) from error
    return Path(found)
