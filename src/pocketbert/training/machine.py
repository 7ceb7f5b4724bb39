"""What a run sets on the machine it runs on: threads, small numbers, memory; and what it can tell about it."""

import contextlib
import ctypes
import platform
import sys
import threading
from collections.abc import Iterator
from functools import cache
from typing import Annotated, ClassVar

import torch

from pocketbert.training.settings import MOST_THREADS
from pocketbert.values import Between, held

BFLOAT16_PAYS = 256  # width from which products are so large that casting to bfloat16 is worth it


@contextlib.contextmanager
def computing(threads: int | None) -> Iterator[None]:
    """Threads for this block, and numbers too small to matter flushed to zero; afterwards both are as they were."""
    held(threads, Annotated[int, Between(1, MOST_THREADS)] | None, "threads")
    flushed = flushes_denormals()
    # Denormal numbers, which Adam's squares are full of, are a hundred times slower to compute with.
    torch.set_flush_denormal(True)
    try:
        with _Threads.at(threads):
            yield
    finally:
        torch.set_flush_denormal(flushed)


class _Threads:
    """The number of threads is the whole process's. Blocks of one thread are nested, and each gives back what it found;
    of blocks in several threads at once, the last to end gives back what the first found."""

    lock = threading.Lock()
    inside: ClassVar[list[int]] = []  # one entry for each block: the thread it is in
    found = 0  # before the first of them

    @classmethod
    @contextlib.contextmanager
    def at(cls, threads: int | None) -> Iterator[None]:
        own = threading.get_ident()
        with cls.lock:
            before = torch.get_num_threads()
            if not cls.inside:
                cls.found = before
            cls.inside.append(own)
            if threads is not None and threads != before:
                torch.set_num_threads(threads)
        try:
            yield
        finally:
            with cls.lock:
                cls.inside.remove(own)
                if not cls.inside:
                    torch.set_num_threads(cls.found)
                elif set(cls.inside) == {own}:
                    torch.set_num_threads(before)


def flushes_denormals() -> bool:
    """Are numbers too small for full precision taken as zero, in this thread? torch can set it, and not tell."""
    return bool((torch.tensor([sys.float_info.min], dtype=torch.float64) / 2).item() == 0.0)


@cache
def keep_freed_memory() -> None:
    """Ask glibc not to give large freed blocks back at once: the next step would fault every page in again.

    It holds for the whole process, for good: commands and workers ask for it, the library never does.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 1 << 30)
    libc.mallopt(trim_threshold, (1 << 31) - 1)


@cache
def has_bfloat16() -> bool:
    """Does this CPU multiply bfloat16 matrices itself? Where it does not, they are emulated, slowly."""
    flags = ("avx512_bf16", "amx_bf16", "bf16")
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    return any(flag in line.split() for flag in flags)
    except OSError:
        pass
    return False


def give_back_memory() -> None:
    """Return what was freed and kept: over hours, blocks of every length of text there is pile up."""
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def forget_peak_memory() -> None:
    """Count the peak anew, so that a run that follows a larger one in its process does not inherit its peak."""
    if sys.platform != "linux":
        return
    give_back_memory()
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def kernel_says(kind: str) -> int | None:
    """One of the amounts of memory that Linux tells of this process, in bytes; None elsewhere."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) * 1024
    return None


def peak_memory() -> int:
    """The most memory this process has had since `forget_peak_memory`, in bytes; 0 where the system does not say."""
    told = kernel_says("VmHWM")
    if told is not None:
        return told
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
