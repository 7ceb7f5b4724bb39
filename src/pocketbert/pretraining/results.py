"""What pretraining writes when it has ended: the model, the numbers, the card."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from pocketbert.checkpoints import WEIGHTS, hugging_face_tensors, write_tokenizer
from pocketbert.encoder import Encoder
from pocketbert.files import new_file, write_json
from pocketbert.pretraining.card import write_card, write_curve
from pocketbert.pretraining.folder import CURVE
from pocketbert.pretraining.learner import LOSSES, trains, unigram_baseline
from pocketbert.pretraining.preparation import Prepared
from pocketbert.pretraining.settings import PretrainingSettings
from pocketbert.training.machine import peak_memory

# Parts that may be untrained, and what Hugging Face calls them.
PARTS = {
    "model.words.": "cls.predictions.",
    "model.next_sentence.": "cls.seq_relationship.",
    "model.encoder.pooler.": "bert.pooler.",
}


def write_model(folder: Path, prepared: Prepared, weights: dict[str, Tensor], settings: PretrainingSettings) -> None:
    """config, weights, tokenizer, pooling. What no loss reached is left out: it would mean nothing."""
    student = prepared.student(settings)
    student.load_state_dict(weights, strict=False)
    model = student.model
    _repeat_positions(model.encoder, settings.longest)
    tensors = hugging_face_tensors(model, torch.float16 if settings.half else torch.float32)
    for ours, theirs in PARTS.items():
        told_nothing = settings.causal and ours == "model.words."  # the next word, not the one at a [MASK]
        if told_nothing or not trains(ours, settings):
            tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(theirs)}
    architecture = "BertForPreTraining" if settings.text_weight > 0 and not settings.causal else "BertModel"
    write_json(folder / "config.json", {"architectures": [architecture], **model.encoder.config.to_hugging_face()})
    with new_file(folder / WEIGHTS) as part:
        save_file(tensors, part, metadata={"format": "pt"})
    write_tokenizer(prepared.corpus.tokenizer, folder, settings.positions)
    if settings.pooling == "mean":
        pooling = {"word_embedding_dimension": model.encoder.config.width, "pooling_mode_mean_tokens": True}
        write_json(folder / "1_Pooling" / "config.json", {**pooling, "pooling_mode_cls_token": False})


def _repeat_positions(encoder: Encoder, trained: int) -> None:
    """Places beyond the longest sequence were never trained: they repeat the trained ones (all but the first)."""
    table = encoder.embeddings.position.weight
    with torch.no_grad():
        for place in range(trained, len(table)):
            table[place] = table[1 + (place - 1) % (trained - 1)]


def write_numbers(
    folder: Path,
    prepared: Prepared,
    settings: PretrainingSettings,
    files: Sequence[str],
    *,
    parameters: int,
    seconds: float,
    training_seconds: float,
    processes: int,
) -> None:
    """metrics.json, and what people read of it."""
    curve = [json.loads(line) for line in (folder / CURVE).read_text(encoding="utf-8").splitlines()]
    last = curve[-1]
    metrics = {
        "steps": int(last["step"]),
        "tokens": int(last["tokens"]),
        "held_out": {name.removeprefix("held_"): last[name] for name in last if name.startswith("held_")},
        "training": {name: last[name] for name in LOSSES},
        "baseline": {
            **unigram_baseline(prepared.counts, prepared.held),
            "next_sentence_accuracy": 0.5 if settings.next_sentence else None,
        },
        "curve": curve,
        "corpus": prepared.corpus.metadata,
        "cost": {
            "seconds": seconds,
            "training_seconds": training_seconds,
            "tokens_per_second": last["tokens"] / max(training_seconds, 1e-9),
            "peak_memory_bytes": peak_memory(),
            "parameters": parameters,
            "processes": processes,
        },
        "machine": {"python": platform.python_version(), "system": platform.system(), "processor": platform.machine()},
    }
    write_json(folder / "metrics.json", metrics)
    write_curve(folder / "report.html", metrics, settings)
    write_card(folder / "README.md", metrics, settings, files)
