"""`pretrain`: raw text in, a model folder out; resumable, and the same bits every time.

In order: lock, settings, corpus, the teacher's vectors, the budget in steps, the one training loop, the model, the
numbers, the card; the manifest last.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketbert import __version__, folders
from pocketbert.errors import UserError
from pocketbert.files import home, lock, write_json, write_text
from pocketbert.pretraining.corpus import Say, fingerprint_texts, given_tokenizer
from pocketbert.pretraining.distributed import Processes, processes
from pocketbert.pretraining.folder import BUDGET, CURVE, Budget, Metadata, PretrainedFolder, load_pretrained
from pocketbert.pretraining.learner import PretrainingLearner, part_length, time_steps
from pocketbert.pretraining.preparation import Prepared, prepare
from pocketbert.pretraining.results import write_model, write_numbers
from pocketbert.pretraining.settings import PretrainingSettings, resolve
from pocketbert.pretraining.teacher import Teacher, find_teacher
from pocketbert.pretraining.text import find_files
from pocketbert.start import weights_fingerprint
from pocketbert.training.loop import Outcome, Report, train
from pocketbert.training.machine import computing
from pocketbert.values import read_object

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def pretrain(
    corpus: Paths,
    out: str | os.PathLike[str],
    settings: PretrainingSettings,
    *,
    cache: str | os.PathLike[str] | None = None,
    report: Report | None = None,
    say: Say | None = None,
) -> PretrainedFolder:
    """Pretrain a BERT on raw text. The same call again goes on where it stopped; a finished one is given back.

    Args:
        corpus: files or folders of text.
        out: the model's folder.
        settings: what to do; exactly one of steps, tokens and minutes.
        cache: where tokenised texts and teachers' vectors are kept for the next run; None: pocketbert's own folder.
        report: hears the training loop's progress.
        say: hears, in a line, what else is being done.
    """
    folder = Path(out)
    files = find_files([corpus] if isinstance(corpus, str | os.PathLike) else corpus)
    teacher = None if settings.teacher is None else find_teacher(settings.teacher, settings.teacher_layer)
    behind = _behind_names(settings, teacher)
    kept = home() / "pretraining" if cache is None else Path(cache)
    folders.require_own_or_empty(folder, "pretraining")
    if kept.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"cache: {kept} is inside the model's folder; name another")
    with processes(settings.device) as group:
        settings = resolve(settings, processes_here=group.here)
        job = Job(folder, files, settings, teacher, behind, kept, group, report if group.first else None, say)
        group.wait()  # until all have looked at the folder
        with computing(settings.threads):
            if not group.first:
                return _follow(job)
            with lock(folder):
                return _lead(job)


@dataclass(frozen=True, eq=False)
class Job:
    """One pretraining, in one process."""

    folder: Path
    files: list[Path]
    settings: PretrainingSettings
    teacher: Teacher | None
    behind_names: dict[str, str | None]
    cache: Path
    group: Processes
    report: Report | None
    say: Say | None

    def tell(self, message: str) -> None:
        if self.say is not None and self.group.first:
            self.say(message)

    @property
    def checkpoint(self) -> Path:
        return self.folder / folders.CHECKPOINT


def _lead(job: Job) -> PretrainedFolder:
    """The first process: it writes everything."""
    folder, settings = job.folder, job.settings
    names = [path.name for path in job.files]
    metadata = {
        "format": 1,
        "pocketbert": __version__,
        "corpus": fingerprint_texts(job.files),
        "files": names,
        "processes": job.group.count,
        **job.behind_names,
        "settings": settings.to_dict(),
    }
    there = read_object(folder / folders.SETTINGS, Metadata) if (folder / folders.SETTINGS).is_file() else None
    folders.begin(folder, there, metadata, f"{folder}: holds another pretraining")
    if not job.group.agree(float((folder / folders.MANIFEST).is_file())):
        started = time.perf_counter()
        try:
            prepared = _prepare(job)
            outcome = _train(job, prepared)
        except UserError:
            if not job.checkpoint.exists():
                folders.forget(folder, BUDGET, CURVE)
            raise
        weights = outcome.weights[settings.seed]
        write_model(folder, prepared, weights, settings)
        write_numbers(
            folder,
            prepared,
            settings,
            names,
            parameters=sum(tensor.numel() for name, tensor in weights.items() if name.startswith("model.")),
            seconds=time.perf_counter() - started,
            training_seconds=outcome.elapsed,
            processes=job.group.count,
        )
        folders.write_manifest(folder)
    job.checkpoint.unlink(missing_ok=True)
    job.group.wait()
    return load_pretrained(folder)


def _behind_names(settings: PretrainingSettings, teacher: Teacher | None) -> dict[str, str | None]:
    """Hashes of what settings only name: should it change, the run does not go on with something else."""
    vocabulary = None if settings.vocabulary is None else given_tokenizer(settings.vocabulary).to_json()
    return {
        "vocabulary_content": None if vocabulary is None else hashlib.sha256(vocabulary.encode()).hexdigest(),
        "teacher_weights": None if teacher is None else weights_fingerprint(teacher.model.encoder()),
    }


def _follow(job: Job) -> PretrainedFolder:
    """Every other process: it trains its share and writes nothing."""
    if not job.group.agree(0.0):
        _train(job, _prepare(job))
    job.group.wait()
    return load_pretrained(job.folder)


def _prepare(job: Job) -> Prepared:
    """The first process reads the texts and asks the teacher; the others then find it done."""
    if not job.group.first:
        job.group.wait()
    prepared = prepare(job.files, job.settings, job.teacher, job.cache, job.tell)
    if job.group.first:
        job.group.wait()
    return prepared


def _budget(job: Job, prepared: Prepared) -> int:
    """The budget in steps. Minutes depend on the clock, so the measurement is made once and kept in the folder."""
    settings, group = job.settings, job.group
    if settings.steps is not None:
        return settings.steps
    path = job.folder / BUDGET
    known: dict[str, Any] = read_object(path, Budget) if group.first and path.is_file() else {}
    steps = int(group.agree(float(known.get("steps", 0))))
    if steps:
        return steps
    if settings.tokens is not None:
        known["tokens_per_step"] = prepared.tokens_per_step()
        steps = round(settings.tokens / known["tokens_per_step"])
    else:
        assert settings.minutes is not None
        job.tell("measuring how long a step takes")
        known = dict(time_steps(_learner(job, prepared, steps=1_000)))
        left = settings.minutes * 60 - settings.checkpoints * known["seconds_per_measurement"]
        if left < settings.minutes * 30:
            each = known["seconds_per_measurement"]
            raise UserError(
                f"minutes: {settings.checkpoints} measurements of held-out text of {each:.1f} s each would take more "
                f"than half of them; use fewer checkpoints, or more minutes"
            )
        steps = int(left / known["seconds_per_step"])
    steps = int(group.agree(float(max(1, steps))))
    if group.first:
        write_json(path, {**known, "steps": steps})
    return steps


def _learner(job: Job, prepared: Prepared, steps: int) -> PretrainingLearner:
    student = prepared.student(job.settings)
    return PretrainingLearner(
        student, prepared.text, prepared.held, prepared.distillation, job.settings, steps, job.group
    )


def _train(job: Job, prepared: Prepared) -> Outcome:
    settings, steps = job.settings, _budget(job, prepared)
    config = settings.shape(len(prepared.corpus.tokenizer))
    there = job.checkpoint.stat().st_size if job.checkpoint.is_file() else 0
    if there != int(job.group.agree(float(there))):
        raise UserError(f"{job.folder}: several processes need one folder that all of them see")
    job.tell(
        f"{settings.size}: {config.layers} layers, {config.width} wide; {steps:,} steps of {settings.batch_size} rows, "
        f"rate {settings.learning_rate:g}, {settings.precision}, {job.group.count} x {settings.threads} threads"
    )

    def show(outcome: Outcome) -> None:
        curve = [record.scores for record in outcome.history]
        write_text(job.folder / CURVE, "".join(json.dumps(row) + "\n" for row in curve))
        job.tell(_line(curve[-1], steps))

    return train(
        [lambda: _learner(job, prepared, steps)],
        epochs=-(-steps // part_length(steps, settings.checkpoints)),
        checkpoint=job.checkpoint,
        report=job.report,
        save=job.group.first,
        after_epoch=show if job.group.first else None,
    )


def _line(row: dict[str, float | None], steps: int) -> str:
    """One line about where it is."""
    parts = [f"step {row['step']:,.0f} of {steps:,}"]
    if row["held_words"] is not None:
        parts.append(f"held out: words {row['held_words']:.3f} ({100 * (row['held_words_accuracy'] or 0):.1f} % right)")
    if row["held_next_sentence"] is not None:
        parts.append(f"next sentence {100 * (row['held_next_sentence_accuracy'] or 0):.1f} % right")
    if row["cosine"] is not None:
        parts.append(f"teacher: cosine distance {row['cosine']:.3f}, similarities {row['similarity']:.4f}")
    if row["states"] is not None:
        parts.append(f"words' states {row['states']:.3f}")
    return "; ".join(parts)
