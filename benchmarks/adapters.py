"""What adapters cost: a training step beside full fine-tuning and the `adapters` library; many of them in memory.

    python -m benchmarks.adapters speed [--sizes tiny,mini,base] [--rounds 5]
    python -m benchmarks.adapters memory [--model minilm-l6] [--count 20]

`speed` times steps of the same batches (like lengths, 32 texts of the movies task, float32) in turns, in one process,
and gives the median of the rounds. Where the `adapters` library and its `transformers` are not installed, their lines
are left out (tests/fixtures/adapters/make.py has the versions). `memory` trains so many small adapters, and loads, each
in a process of its own, one run and all of them together.
"""

import argparse
import copy
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.report import align
from pocketbert import Encoder, Task, load_task, load_tokenizer
from pocketbert.adapter_set import AdapterSet
from pocketbert.config import SHAPES
from pocketbert.loading import load_model
from pocketbert.methods import DataSize, get_method
from pocketbert.runs import load_run
from pocketbert.start import Start
from pocketbert.tokenizer import Encoded
from pocketbert.train import train_run
from pocketbert.training.fit import make_network
from pocketbert.training.learners import NetworkLearner, TaskTexts
from pocketbert.training.machine import computing, kernel_says

BATCH, LENGTH = 32, 128
Step = Callable[[np.ndarray], None]


def our_steps(encoder: Encoder, texts: TaskTexts, threads: int) -> dict[str, tuple[Step, int]]:
    """A step of each method on a copy of the encoder, and how many parameters it trains."""
    layers = len(encoder.layers)
    start = Start("fresh", encoder.config, lambda seed: encoder)
    contenders: dict[str, tuple[str, dict[str, Any]]] = {
        "finetune": ("finetune", {}),
        "bitfit": ("bitfit", {}),
        "lora": ("lora", {}),
        "houlsby": ("houlsby", {}),
        "pfeiffer": ("pfeiffer", {}),
        f"pfeiffer, top {layers // 2} of {layers} layers": (
            "pfeiffer",
            {"adapter_layers": f"top:{layers // 2}", "cache_features": False},
        ),
        f"pfeiffer, top {layers // 2} of {layers}, lower ones cached": (
            "pfeiffer",
            {"adapter_layers": f"top:{layers // 2}"},
        ),
    }
    steps = {}
    for name, (kind, told) in contenders.items():
        method = get_method(kind)
        told = {
            "batch_size": BATCH,
            "epochs": 1,
            "threads": threads,
            "precision": "float32",
            "pooling": "pooler",
            **told,
        }
        settings = method.resolve(method.read(told), start, DataSize(len(texts.train), 2))
        network = make_network(method, copy.deepcopy(encoder), settings, {texts.name: texts.labels})
        learner = NetworkLearner(network, method.trains, [texts], settings, 1e-4)
        network.train()
        steps[name] = (
            lambda rows, learner=learner: learner.step(rows, 1e-4),
            sum(parameter.numel() for _, parameter in learner.trainable),
        )
    return steps


def their_steps(encoder: Encoder, texts: TaskTexts) -> dict[str, tuple[Step, int]]:
    """`transformers` with all parameters, and the `adapters` library; nothing where they are not installed."""
    try:
        import adapters
        import transformers
    except ImportError as error:
        print(f"without the adapters library: {error}", file=sys.stderr)
        return {}
    config = transformers.BertConfig(**encoder.config.to_hugging_face(), num_labels=2)
    encoded, targets = texts.train, torch.from_numpy(texts.targets)

    def stepping(model: torch.nn.Module) -> tuple[Step, int]:
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trainable, lr=1e-4, weight_decay=0.01, fused=True)
        model.train()

        def step(rows: np.ndarray) -> None:
            loss = model(**encoded.tensors(rows), labels=targets[torch.from_numpy(rows)]).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trainable, 1.0)
            optimizer.step()

        return step, sum(parameter.numel() for parameter in trainable)

    plain = transformers.BertForSequenceClassification(config)
    adapted = transformers.BertForSequenceClassification(config)
    adapters.init(adapted)
    width = encoder.config.width
    reduction = max(1, min(16, width // 32))  # as ours
    adapted.add_adapter("movies", config=adapters.SeqBnConfig(reduction_factor=reduction))
    adapted.train_adapter("movies")
    model = stepping(adapted)
    model[0](np.arange(2))
    unread = [name for name, p in adapted.named_parameters() if p.requires_grad and p.grad is None]
    assert not unread, f"the library's adapter is not in use: {unread}"
    return {"transformers: all": stepping(plain), "adapters library: pfeiffer": model}


def measure_speed(size: str, task: Task, rounds: int, steps: int, threads: int) -> list[list[str]]:
    """Milliseconds per step of everything, in turns."""
    tokenizer = load_tokenizer("pocket-tiny")
    config = load_model(size).config
    encoder = Encoder(config, seed=0)
    encoded = tokenizer(task.train.texts, max_length=LENGTH)
    assert isinstance(encoded, Encoded)
    assert task.train.labels is not None
    assert int(encoded.ids.max()) < config.vocabulary
    texts = TaskTexts(task.name, len(task.labels), encoded, task.train.labels)
    found: dict[str, list[float]] = {}
    with computing(threads):
        contenders = {**our_steps(encoder, texts, threads), **their_steps(encoder, texts)}
        order = np.argsort(encoded.lengths, kind="stable")
        middle = order[len(order) // 2 :][: BATCH * steps]  # of the usual length: every step costs about the same
        batches = [middle[begin : begin + BATCH] for begin in range(0, len(middle), BATCH)]
        for number in range(rounds + 1):
            for name, (step, _) in contenders.items():
                began = time.perf_counter()
                for rows in batches:
                    step(rows)
                if number:  # the first round is slow
                    found.setdefault(name, []).append(1e3 * (time.perf_counter() - began) / len(batches))
    whole = float(np.median(found["finetune"]))
    return [
        [size, name, f"{contenders[name][1]:,}", f"{np.median(times):.1f}", f"{whole / np.median(times):.2f}"]
        for name, times in found.items()
    ]


def speed(options: argparse.Namespace) -> None:
    task = load_task("movies")
    lines = [["size", "what", "trained parameters", "ms per step", "times as fast as our finetune"]]
    for size in options.sizes.split(","):
        lines += measure_speed(size, task, options.rounds, options.steps, options.threads)
    print("\n".join(align(lines)))


# -- many in memory ----------------------------------------------------------------------------------------------------


def memory(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, task = Path(place), load_task("movies@64")
        for seed in range(options.count):
            told = {"epochs": 1, "seed": seed, "threads": options.threads}
            train_run(task, "pfeiffer", folder / str(seed), model=options.model, settings=told)
        one, many = (_load_in_another_process(folder, count) for count in (1, options.count))
    lines = [
        ["", "one run", f"{options.count} together", "ratio"],
        *(
            [what, f"{one[key] / 2**20:.1f} MB", f"{many[key] / 2**20:.1f} MB", f"{many[key] / one[key]:.3f}"]
            for key, what in (("parameters", "parameters"), ("process", "whole process"))
        ),
    ]
    print("\n".join(align(lines)))
    print(f"switching: median {1e6 * many['switch']:.0f} µs, longest {1e6 * many['longest']:.0f} µs")
    print(f"predictions equal to each alone: {'yes' if many['equal'] else 'NO'}")


def _load_in_another_process(folder: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.adapters", "load", str(folder), str(count)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def load(options: argparse.Namespace) -> None:
    """One run as it is loaded alone, or a set of them: what the process holds, how long a switch takes."""
    texts = load_task("movies").test.texts[:16]
    if options.count == 1:
        fitted = load_run(options.folder / "0").fitted()
        fitted.probabilities(texts)
        print(json.dumps({"parameters": fitted.model_bytes, "process": kernel_says("VmRSS")}))
        return
    adapters = AdapterSet({str(number): options.folder / str(number) for number in range(options.count)})
    predicted = {name: adapters.predict_proba(name, texts) for name in adapters.names}
    process, taken = kernel_says("VmRSS"), []
    for number in range(20 * options.count):
        began = time.perf_counter()
        adapters.use(str(number % options.count))
        taken.append(time.perf_counter() - began)
    parameters: dict[int, int] = {}
    for name in adapters.names:
        adapters.use(name)
        network = adapters._members[name].fitted.network
        parameters.update({id(parameter): parameter.nbytes for parameter in network.parameters()})
    alone = {name: load_run(options.folder / name).fitted().probabilities(texts) for name in adapters.names}
    equal = all(np.array_equal(predicted[name], alone[name]) for name in alone)
    told = {"switch": float(np.median(taken)), "longest": max(taken), "equal": equal}
    print(json.dumps({"parameters": sum(parameters.values()), "process": process, **told}))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapters", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("speed")
    one.add_argument("--sizes", default="tiny,mini,base", help=f"of {', '.join(SHAPES)}")
    one.add_argument("--rounds", type=int, default=5)
    one.add_argument("--steps", type=int, default=8)
    one.set_defaults(do=speed)
    two = commands.add_parser("memory")
    two.add_argument("--model", default="minilm-l6")
    two.add_argument("--count", type=int, default=20)
    two.set_defaults(do=memory)
    three = commands.add_parser("load")
    three.add_argument("folder", type=Path)
    three.add_argument("count", type=int)
    three.set_defaults(do=load)
    for command in (one, two):
        command.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
