"""What the machine can do at most, and where the time of a training step goes."""

import statistics
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from pocketbert.dropout import Dropout
from pocketbert.training.machine import has_bfloat16

if TYPE_CHECKING:
    from benchmarks.ours import Training

GROUPS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::linear", "mkldnn::_linear_pointwise"),
    "attention (scores, softmax, mix)": (
        "aten::bmm",
        "aten::baddbmm",
        "aten::_softmax",
        "aten::_softmax_backward_data",
        "aten::softmax",
    ),
    "gelu": ("aten::gelu", "aten::gelu_backward", "aten::tanh", "aten::tanh_backward"),
    "norms": ("aten::native_layer_norm", "aten::native_layer_norm_backward", "aten::layer_norm"),
    "embedding": ("aten::index", "aten::index_add_", "aten::embedding", "aten::embedding_dense_backward", "_Rows"),
    "adding, scaling, copying": (
        "aten::add",
        "aten::add_",
        "aten::mul",
        "aten::mul_",
        "aten::copy_",
        "aten::clone",
        "aten::sum",
        "aten::fill_",
        "aten::zero_",
        "aten::where",
        "aten::cat",
    ),
}
OPTIMISER, MASKS, LOADING = "optimiser (zeroing, clipping, AdamW)", "dropout masks", "putting the batch together"
REST = "Python and the rest"


def matrix_product_peak(threads: int, *, size: int = 2048, times: int = 7) -> dict[str, float]:
    """GFLOP/s of one large square product, the median of several, for each precision the CPU multiplies itself."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    peaks = {}
    for name in ("float32", "bfloat16") if has_bfloat16() else ("float32",):
        generator = torch.Generator().manual_seed(0)
        a, b = (torch.randn(size, size, generator=generator).to(getattr(torch, name)) for _ in range(2))
        seconds = []
        for _ in range(times + 2):
            started = time.perf_counter()
            a @ b
            seconds.append(time.perf_counter() - started)
        peaks[name] = 2 * size**3 / statistics.median(seconds[2:]) / 1e9
    torch.set_num_threads(before)
    return peaks


def where_the_time_goes(training: "Training") -> dict[str, float]:
    """Percent of a round's time by group, from torch's profiler (which itself slows small operations down)."""
    learner = training.learner
    plain_step, plain_zero, plain_mask = learner.optimizer.step, learner.optimizer.zero_grad, Dropout.mask
    plain_tensors = type(learner.tasks[0].train).tensors

    def labelled(label: str, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            with record_function(label):
                return function(*arguments, **named)

        return call

    learner.optimizer.step = labelled(OPTIMISER, plain_step)  # type: ignore[method-assign]
    learner.optimizer.zero_grad = labelled(OPTIMISER, plain_zero)  # type: ignore[method-assign]
    Dropout.mask = labelled(MASKS, plain_mask)  # type: ignore[method-assign]
    type(learner.tasks[0].train).tensors = labelled(LOADING, plain_tensors)  # type: ignore[method-assign]
    try:
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            seconds = training.run(1)["seconds"]
    finally:
        learner.optimizer.step, learner.optimizer.zero_grad = plain_step, plain_zero  # type: ignore[method-assign]
        Dropout.mask, type(learner.tasks[0].train).tensors = plain_mask, plain_tensors  # type: ignore[method-assign]
    spent: defaultdict[str, float] = defaultdict(float)
    for event in profiler.events():
        spent[group_of(event)] += event.self_cpu_time_total / 1e6
    spent[REST] += max(0.0, seconds - sum(spent.values()))
    total = sum(spent.values())
    return {name: 100 * value / total for name, value in sorted(spent.items(), key=lambda item: -item[1])}


def group_of(event: Any) -> str:
    """The label around an operation, else the group its name is in."""
    around = event
    while around is not None:
        if around.name in (OPTIMISER, MASKS, LOADING):
            return around.name
        around = around.cpu_parent
    return next((group for group, names in GROUPS.items() if event.name in names), REST)
