"""The other side: `transformers`, used as its own examples do, with nothing slow that is not in them.

A bare loop instead of `Trainer`, texts tokenised beforehand, no logging and no evaluation in between: all of that is
in their favour. The data loader pads each batch to its longest text (or all to 128, as `run_glue` does by default).
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils.data import DataLoader

from pocketbert import Task
from pocketbert.tasks import Split

LENGTH, BATCH = 128, 32
Measured = dict[str, float]


def make_model(folder: Path) -> transformers.BertForSequenceClassification:
    """Fresh weights of the folder's shape."""
    config = transformers.BertConfig.from_pretrained(folder, num_labels=2, attn_implementation="sdpa")
    return transformers.BertForSequenceClassification(config)


def make_loader(folder: Path, split: Split, *, padding: str, shuffle: bool) -> DataLoader:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    settings = {"padding": "max_length"} if padding == "max" else {}
    encoded = tokenizer(split.texts, truncation=True, max_length=LENGTH, **settings)
    assert split.labels is not None
    rows = [
        {**{name: values[i] for name, values in encoded.items()}, "label": int(label)}
        for i, label in enumerate(split.labels)
    ]
    collate = transformers.DataCollatorWithPadding(tokenizer)
    return DataLoader(
        rows,  # type: ignore[arg-type]
        batch_size=BATCH,
        shuffle=shuffle,
        collate_fn=collate,
        generator=torch.Generator().manual_seed(0),
    )


def forever(loader: DataLoader) -> Iterator[Any]:
    while True:
        yield from loader


class Training:
    """Fine-tuning, or training the classifier on a frozen encoder, a number of steps at a time."""

    def __init__(
        self,
        folder: Path,
        task: Task,
        *,
        steps: int,
        padding: str = "dynamic",
        fused: bool = False,
        frozen: bool = False,
    ) -> None:
        self.steps = steps
        self.model = make_model(folder).train()
        self.dev = make_loader(folder, task.dev, padding=padding, shuffle=False) if frozen else None
        self.loader = make_loader(folder, task.train, padding=padding, shuffle=True)
        self.batches = forever(self.loader)
        for parameter in self.model.bert.parameters():
            parameter.requires_grad_(not frozen)
        named = [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]
        spared = ("bias", "LayerNorm.weight")
        groups = [
            {"params": [p for name, p in named if not name.endswith(spared)], "weight_decay": 0.01},
            {"params": [p for name, p in named if name.endswith(spared)], "weight_decay": 0.0},
        ]
        self.parameters = [p for _, p in named]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, fused=True if fused else None)
        epochs = 4 * len(self.loader)
        self.schedule = transformers.get_linear_schedule_with_warmup(self.optimizer, epochs // 10, epochs)
        for _ in range(2):
            self.step()

    def step(self) -> int:
        batch = next(self.batches)
        self.optimizer.zero_grad()
        loss = self.model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.schedule.step()
        loss.item()
        return len(batch["labels"])

    def run(self, round_number: int) -> Measured:
        started = time.perf_counter()
        examples = sum(self.step() for _ in range(self.steps))
        measured: Measured = {"seconds": time.perf_counter() - started, "examples": examples}
        if self.dev is not None:
            measured |= self.evaluate()
        return measured

    def evaluate(self) -> Measured:
        """The whole dev split once."""
        assert self.dev is not None
        self.model.eval()
        started = time.perf_counter()
        with torch.inference_mode():
            rows = sum(len(self.model(**batch).logits.argmax(dim=1)) for batch in self.dev)
        seconds = time.perf_counter() - started
        self.model.train()
        return {"dev_seconds": seconds, "dev_examples": rows}


class Predicting:
    """Their pipeline over the test sentences."""

    def __init__(self, folder: Path, task: Task) -> None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = make_model(folder).eval()
        self.texts = list(task.test.texts)
        self.pipeline = transformers.pipeline(
            "text-classification", model=model, tokenizer=tokenizer, batch_size=BATCH, device="cpu"
        )
        self.pipeline(self.texts[:64], truncation=True, max_length=LENGTH)

    def run(self, round_number: int) -> Measured:
        started = time.perf_counter()
        results = self.pipeline(self.texts, truncation=True, max_length=LENGTH)
        return {"seconds": time.perf_counter() - started, "examples": len(results)}


def make(kind: str, folder: Path, task: Task, spec: dict[str, Any]) -> Training | Predicting:
    """What a worker asks for by name."""
    return Predicting(folder, task) if kind == "predict" else Training(folder, task, frozen=kind == "frozen", **spec)
