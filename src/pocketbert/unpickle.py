"""The one place that reads a pickle: `pytorch_model.bin` → safetensors, in a process of its own.

`weights_only=True` makes torch build tensors and plain containers and refuse everything else, so a file that wants
to call something gets an error instead of a call. A separate process keeps even a fault of that reader away from
the person's session. It may take the memory and time that a file of this size can need and no more, and it ends when
the one who started it does. Run by `catalog.import_model`; nothing else in the package unpickles.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

from pocketbert.config import MOST_TENSORS
from pocketbert.errors import UserError, quote
from pocketbert.files import require_regular_file

MEMORY = 400_000_000  # bytes beside torch itself, and so many for each byte of the file:
MEMORY_PER_BYTE = 8
SECONDS = 20.0  # of computing, torch's own start included, and one more for so many bytes:
BYTES_PER_SECOND = 20_000_000
PATIENCE = 5  # times as long by the clock: the disk may be slow
COPIES = 3  # a tied weight is stored once and named twice; ten thousand names for one are an attack
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32")  # whole numbers: old files' position ids


def convert(source: Path, target: Path) -> None:
    """Convert a .bin to a .safetensors in another process."""
    size = require_regular_file(source).st_size
    memory, seconds = round(MEMORY + MEMORY_PER_BYTE * size), round(SECONDS + size / BYTES_PER_SECOND)
    numbers = [str(size), str(memory), str(seconds)]
    command = [sys.executable, "-P", "-m", "pocketbert.unpickle", str(source), str(target), *numbers]
    theirs, ours = os.pipe()  # nothing is ever written: that ours closes tells the child that we have ended
    try:
        done = subprocess.run(
            command, stdin=theirs, capture_output=True, timeout=PATIENCE * seconds, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{source}: refused: it was not read within {PATIENCE * seconds} seconds") from None
    finally:
        os.close(theirs)
        os.close(ours)
    if done.returncode != 0:
        raise UserError(f"{source}: refused: {_why(done, seconds)}")


def _why(done: subprocess.CompletedProcess[str], seconds: int) -> str:
    if done.returncode >= 0:
        return (done.stderr.strip().splitlines() or ["no message"])[-1]
    name = signal.Signals(-done.returncode).name
    if name == "SIGXCPU":
        return f"reading it took more than {seconds} seconds of computing, too much for a file of its size"
    return f"the process that read it was ended by {name}"


# -- in the child ----------------------------------------------------------------------------------------------------


def _convert_here(source: Path, target: Path, size: int, memory: int, seconds: int) -> None:
    _end_with_parent()
    import torch
    from safetensors.torch import save_file

    _set_limits(memory, seconds)
    try:
        content = torch.load(source, map_location="cpu", weights_only=True)
        _check(content, size)
        # Tied weights share memory in a pickle; safetensors wants each on its own.
        tensors = {name: tensor.detach().contiguous().clone() for name, tensor in content.items()}
        save_file(tensors, target, {"format": "pt"})
    except Exception as error:
        _refuse(error, size)


def _refuse(error: Exception, size: int) -> NoReturn:
    if isinstance(error, UserError):
        sys.exit(str(error))
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        sys.exit(f"it asks for more memory than a file of {size:,} bytes can need")
    if type(error).__name__ == "UnpicklingError":
        sys.exit("it holds more than tensors (it would run code when read), or it is no pickle of weights")
    sys.exit(f"not a readable file of weights: {type(error).__name__}")


def _check(content: Any, size: int) -> None:
    """Refuse what is no table of weights, or would become much more than the file is, before anything is copied."""
    import torch

    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in content.items()
    ):
        raise UserError("it is no plain table of names and tensors")
    if len(content) > MOST_TENSORS:
        raise UserError(f"more than {MOST_TENSORS:,} tensors; no BERT has so many")
    kinds = [getattr(torch, name) for name in DTYPES]
    total = 0
    for name, tensor in content.items():
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.dtype not in kinds:
            found = f"{tensor.layout}, {tensor.device.type}, {tensor.dtype}"
            raise UserError(f"tensor {quote(name)} is no plain array of weights ({found})")
        taken, stored = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
        if taken > stored:
            raise UserError(f"tensor {quote(name)} is {taken:,} bytes, but only {stored:,} are stored for it")
        total += taken
    if total > COPIES * size:
        raise UserError(f"its tensors are {total:,} bytes together, more than a file of {size:,} can hold")


def _set_limits(memory: int, seconds: int) -> None:
    """At most so much memory beside what there is now, and so much computing. Windows has no such limits."""
    if sys.platform == "win32":
        return
    import resource

    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_CPU, seconds)
    if sys.platform == "linux":  # others count something else, or nothing
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        _lower(resource.RLIMIT_DATA, pages * resource.getpagesize() + memory)


def _lower(kind: int, most: int) -> None:
    import resource

    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _end_with_parent() -> None:
    """End when the parent does, even by kill -9: then the system closes its end of our standard input.

    A pickle can keep Python from ever changing threads (the hash of nested tuples does), and then the watching thread
    does not run. Linux can end us by itself; elsewhere the limit on computing does.
    """
    if sys.platform == "linux":
        import ctypes

        set_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    _convert_here(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
