"""Several processes, one training: each takes its rows of every batch, and the gradients are added up.

Started by `torchrun`, which tells each process its rank through the environment. Every process makes the whole batch
(cheap, and from the step's number alone), so each knows how many masked words there are everywhere without asking; the
loss of its rows is divided by that number, and the sum of the gradients is the gradient of the whole batch.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor
from torch import distributed as dist

PATIENCE = timedelta(hours=12)  # others wait while the first builds the corpus


@dataclass(frozen=True)
class Processes:
    """This process among the others. Alone, every method does nothing."""

    rank: int = 0
    count: int = 1
    here: int = 1  # of them on this machine

    @property
    def first(self) -> bool:
        """Is this the one that writes and speaks?"""
        return self.rank == 0

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Every process ends with the sum over all processes, in place."""
        if self.count > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def gather(self, own: Tensor) -> Tensor:
        """All processes' rows, in the order of the whole batch; only one's own carry a gradient.

        A loss of all rows computed so by everyone has, summed over the processes, the whole gradient.
        """
        if self.count == 1:
            return own
        counts = torch.zeros(self.count, dtype=torch.int64, device=own.device)
        counts[self.rank] = len(own)
        dist.all_reduce(counts)
        longest = int(counts.max())
        padded = torch.zeros(longest, *own.shape[1:], dtype=own.dtype, device=own.device)
        padded[: len(own)] = own.detach()
        parts = [torch.empty_like(padded) for _ in range(self.count)]
        dist.all_gather(parts, padded)
        rows = [own if rank == self.rank else part[: int(counts[rank])] for rank, part in enumerate(parts)]
        together = torch.cat(rows)
        # Process r has rows r, r + count, …: put each back in its place.
        total = len(together)
        order = torch.cat([torch.arange(rank, total, self.count) for rank in range(self.count)]).to(own.device)
        return together[torch.argsort(order)]

    def wait(self) -> None:
        if self.count > 1:
            dist.barrier()

    def agree(self, number: float) -> float:
        """The first process's number, for all."""
        if self.count == 1:
            return number
        told = torch.tensor([number], dtype=torch.float64)
        if dist.get_backend() == "nccl":
            told = told.cuda()
        dist.broadcast(told, src=0)
        return float(told.item())


@contextlib.contextmanager
def processes(device: str = "cpu") -> Iterator[Processes]:
    """The processes `torchrun` started; this one alone where it did not."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1 or "RANK" not in os.environ:
        yield Processes()
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if device.startswith("cuda"):
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo", timeout=PATIENCE)
    try:
        yield Processes(int(os.environ["RANK"]), count, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    finally:
        dist.destroy_process_group()
