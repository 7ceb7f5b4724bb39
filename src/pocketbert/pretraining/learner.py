"""What the one training loop trains here: a student, in parts of the budget instead of passes over a data set.

After each part, held-out text is measured, masked words and next sentences apart. Batches come from the step's number
and dropout from the part's, so a run that goes on after a kill ends with the same bits.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pocketbert.dropout import seed_dropout, set_dropout
from pocketbert.errors import UserError
from pocketbert.pretraining.corpus import word_shares
from pocketbert.pretraining.distillation import DistillationBatches
from pocketbert.pretraining.distributed import Processes
from pocketbert.pretraining.examples import Batch, Examples
from pocketbert.pretraining.objective import Student, distillation_losses, read_batch
from pocketbert.pretraining.settings import PretrainingSettings
from pocketbert.training.loop import Candidate, Scores, derived_seed
from pocketbert.training.machine import give_back_memory
from pocketbert.training.optimizer import FlatAdamW, rate_schedule
from pocketbert.training.settings import SCHEDULES

DROPOUT = 31  # what a derived seed is for
LOSSES = ("words", "next_sentence", "states", "cosine", "similarity")
OWN = 3  # the first of them are each process's own part of the whole; the others are of all rows already
HELD = ("held_words", "held_words_accuracy", "held_next_sentence", "held_next_sentence_accuracy")
COLUMNS = ("step", "tokens", *LOSSES, *HELD)  # what is told after each part


class PretrainingLearner:
    """One candidate: a student, for so many steps."""

    def __init__(
        self,
        student: Student,
        examples: Examples | None,
        held: list[Batch],
        distillation: DistillationBatches | None,
        settings: PretrainingSettings,
        steps: int,
        group: Processes,
    ) -> None:
        assert settings.learning_rate is not None
        self.candidates: tuple[Candidate, ...] = (Candidate(settings.seed, settings.learning_rate),)
        self.student = student.to(settings.device)
        self.text, self.held, self.distillation = examples, held, distillation
        self.settings, self.steps, self.group = settings, steps, group
        self.part = part_length(steps, settings.checkpoints)
        self.examples = self.part * settings.batch_size
        set_dropout(student, settings.dropout)
        for name, parameter in student.named_parameters():
            parameter.requires_grad_(trains(name, settings))
        self.trainable = [(name, p) for name, p in student.named_parameters() if p.requires_grad]
        self.optimizer = FlatAdamW(self.trainable, weight_decay=settings.weight_decay, clip=settings.clip)
        self.rate = rate_schedule(settings.learning_rate, steps, warmup=settings.warmup, schedule=SCHEDULES[0])
        self.done, self.tokens = 0, 0  # steps and tokens so far
        self.means: list[float] = []  # the losses of the last part: LOSSES

    def epoch(self, number: int, tick: Callable[[int], None]) -> list[float]:
        """One part of the budget."""
        self.student.train()
        seed = derived_seed(self.settings.seed, number, self.group.rank, DROPOUT)
        seed_dropout(self.student, seed, self.settings.device)
        begin, end = number * self.part, min(self.steps, (number + 1) * self.part)
        sums = torch.zeros(len(LOSSES), dtype=torch.float64)
        for step in range(begin, end):
            sums += self.step(step)
            tick((step - begin + 1) * self.settings.batch_size)
        parts = sums[:OWN].to(self.settings.device)
        self.group.add_up([parts])
        sums[:OWN] = parts.cpu()
        means = (sums / (end - begin)).tolist()
        if not all(map(math.isfinite, means)):
            raise UserError(
                f"pretraining diverged before step {end}: the loss is no number; lower learning_rate "
                f"({self.settings.learning_rate:g})"
            )
        self.done, self.means = end, means
        return [sum(weight * mean for weight, mean in zip(self._weights(), means, strict=True))]

    def evaluate(self) -> list[Scores]:
        """Where it is, the losses of the last part, and held-out text. Nothing chooses: the last weights are kept."""
        held = measure_held_out(self.student, self.held)
        give_back_memory()
        told = [mean if there else None for mean, there in zip(self.means, self._there(), strict=True)]
        known = [None if math.isnan(value) else value for value in held]
        where = (float(self.done), float(self.tokens))
        return [Scores(dict(zip(COLUMNS, (*where, *told, *known), strict=True)))]

    def _there(self) -> tuple[bool, ...]:
        """Which of the losses this run has."""
        settings = self.settings
        sentences = settings.learns_sentences
        return self.text is not None, settings.next_sentence, settings.learns_states, sentences, sentences

    def _weights(self) -> tuple[float, ...]:
        settings = self.settings
        follows = settings.text_weight if settings.next_sentence else 0.0
        of_teacher = settings.states_weight, settings.cosine_weight, settings.similarity_weight
        return settings.text_weight, follows, *of_teacher

    def step(self, step: int) -> Tensor:
        """One batch: forward, losses, backward, the sum over processes, update. The losses, unweighted."""
        settings, group = self.settings, self.group
        device = torch.device(settings.device).type
        zero = torch.zeros((), device=settings.device)
        losses = [zero] * len(LOSSES)
        with torch.autocast(device, torch.bfloat16, enabled=settings.precision == "bfloat16"):
            if self.text is not None:
                batch = self.text.batch(step, group.rank, group.count).to(settings.device)
                told = read_batch(self.student.model, batch)
                losses[0] = told.word_loss / max(1, batch.masked_everywhere)
                if told.next_loss is not None:
                    losses[1] = told.next_loss / batch.rows_everywhere
                self.tokens += batch.tokens_everywhere
            if self.distillation is not None:
                distillation_batch = self.distillation.batch(step, group.rank, group.count).to(settings.device)
                told_of_teacher = distillation_losses(self.student, distillation_batch, group)
                losses[2:] = [zero if loss is None else loss for loss in told_of_teacher]
                if self.text is None:
                    self.tokens += distillation_batch.tokens_everywhere
        total = sum((w * loss for w, loss in zip(self._weights(), losses, strict=True) if loss is not zero), zero)
        self.optimizer.zero_grad()
        total.backward()
        group.add_up(vector.grad for vector in self.optimizer.vectors if vector.grad is not None)
        self.optimizer.step(self.rate(step))
        return torch.stack([loss.detach() for loss in losses]).cpu().double()

    def snapshot(self, candidate: int) -> dict[str, Tensor]:
        return {name: parameter.detach().cpu().clone() for name, parameter in self.trainable}

    def state(self) -> dict[str, Tensor]:
        return {**self.optimizer.state(), "tokens": torch.tensor(self.tokens)}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        self.optimizer.load_state(tensors)
        self.tokens = int(tensors["tokens"])


def part_length(steps: int, checkpoints: int) -> int:
    return -(-steps // checkpoints)


def trains(name: str, settings: PretrainingSettings) -> bool:
    """Which parameters learn; the same ones are saved. A part that no loss reaches would only decay."""
    if name.startswith("model.words."):
        return settings.text_weight > 0
    if name.startswith("model.next_sentence."):
        return settings.next_sentence
    if name.startswith("model.encoder.pooler."):
        return settings.trains_pooler
    return True


def measure_held_out(student: Student, held: list[Batch]) -> list[float]:
    """HELD: loss and accuracy of masked words and of next sentences, in full precision; NaN where there are none."""
    student.eval()
    sums, words, rows = np.zeros(4), 0, 0
    with torch.inference_mode():
        for batch in held:
            told = read_batch(student.model, batch, count_right=True)
            parts = (told.word_loss, told.words_right, told.next_loss, told.next_right)
            sums += [0.0 if part is None else float(part) for part in parts]
            words += len(batch.words)
            rows += 0 if batch.next_sentence_labels is None else len(batch.next_sentence_labels)
    student.train()
    counts = np.array([words, words, rows, rows], dtype=np.float64)
    return [float(total / count) if count else math.nan for total, count in zip(sums, counts, strict=True)]


def unigram_baseline(counts: np.ndarray, held: list[Batch]) -> dict[str, Any]:
    """What one knows without reading: the frequency of words in the training text, and the most frequent of them."""
    words = np.concatenate([batch.words.cpu().numpy() for batch in held]) if held else np.zeros(0, dtype=np.int64)
    if not len(words):
        return {"words": None, "words_accuracy": None}
    return {
        "words": float(-np.log(word_shares(counts)[words]).mean()),
        "words_accuracy": float((words == counts.argmax()).mean()),
    }


def time_steps(learner: PretrainingLearner, *, before: int = 3, times: int = 12) -> dict[str, float]:
    """Seconds of a step and of a measurement, on a learner that is thrown away afterwards."""
    for step in range(before):
        learner.step(step)
    started = time.perf_counter()
    for step in range(before, before + times):
        learner.step(step)
    each = (time.perf_counter() - started) / times
    started = time.perf_counter()
    measure_held_out(learner.student, learner.held)
    return {"seconds_per_step": each, "seconds_per_measurement": time.perf_counter() - started}
