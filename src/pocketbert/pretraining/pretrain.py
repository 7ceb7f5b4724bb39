"""`pretrain`: raw text in, a model folder out; resumable, and the same bits every time.

In order: lock, settings, corpus, the teacher's vectors, the budget in steps, the one training loop, the model, the
numbers, the card; the manifest last.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pocketbert import __version__, folders, manifest
from pocketbert.errors import UserError
from pocketbert.files import write_json, write_text
from pocketbert.locks import lock
from pocketbert.paths import home
from pocketbert.pretraining.corpus import Say, fingerprint_texts, given_tokenizer
from pocketbert.pretraining.distributed import Processes, processes
from pocketbert.pretraining.folder import BUDGET, CURVE, Budget, Metadata, PretrainedFolder, load_pretrained
from pocketbert.pretraining.learner import PretrainingLearner, part_length, time_steps
from pocketbert.pretraining.preparation import Prepared, prepare
from pocketbert.pretraining.results import write_model, write_numbers
from pocketbert.pretraining.settings import PretrainingSettings, resolve_settings
from pocketbert.pretraining.teacher import Teacher, find_teacher
from pocketbert.pretraining.text import find_files
from pocketbert.start import weights_fingerprint
from pocketbert.training.loop import Outcome, Report, train
from pocketbert.training.machine import computing
from pocketbert.values import read_object

MEASURING = 0.1  # of the minutes, at most, are spent on measuring held-out text
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
        settings = resolve_settings(settings, processes_here=group.here)
        job = PretrainingJob(
            folder, files, settings, teacher, behind, kept, group, report if group.first else None, say
        )
        group.wait()  # until all have looked at the folder
        with computing(settings.threads):
            if not group.first:
                return _follow(job)
            with lock(folder):
                return _lead(job)


@dataclass(frozen=True, eq=False)
class PretrainingJob:
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
        return self.folder / manifest.CHECKPOINT


def _lead(job: PretrainingJob) -> PretrainedFolder:
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
    there = read_object(folder / manifest.SETTINGS, Metadata) if (folder / manifest.SETTINGS).is_file() else None
    folders.begin(folder, there, metadata, f"{folder}: holds another pretraining")
    if not job.group.agree(float((folder / manifest.MANIFEST).is_file())):
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
        manifest.write_manifest(folder)
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


def _follow(job: PretrainingJob) -> PretrainedFolder:
    """Every other process: it trains its share and writes nothing."""
    if not job.group.agree(0.0):
        _train(job, _prepare(job))
    job.group.wait()
    return load_pretrained(job.folder)


def _prepare(job: PretrainingJob) -> Prepared:
    """The first process reads the texts and asks the teacher; the others then find it done."""
    if not job.group.first:
        job.group.wait()
    prepared = prepare(job.files, job.settings, job.teacher, job.cache, job.tell)
    if job.group.first:
        job.group.wait()
    return prepared


def _budget(job: PretrainingJob, prepared: Prepared) -> tuple[int, int]:
    """The budget in steps, and its parts. Minutes depend on the clock, so they are measured once, and kept."""
    settings, group = job.settings, job.group
    if settings.steps is not None:
        return settings.steps, settings.checkpoints
    path = job.folder / BUDGET
    known: dict[str, Any] = read_object(path, Budget) if group.first and path.is_file() else {}
    steps = int(group.agree(float(known.get("steps", 0))))
    if steps:
        return steps, int(group.agree(float(known.get("checkpoints", settings.checkpoints))))
    if settings.tokens is not None:
        known["tokens_per_step"] = prepared.tokens_per_step()
        steps = round(settings.tokens / known["tokens_per_step"])
    else:
        assert settings.minutes is not None
        job.tell("measuring how long a step takes")
        known = dict(time_steps(_learner(job, prepared, steps=1_000)))
        whole, each = settings.minutes * 60, known["seconds_per_measurement"]
        if each > whole / 2:
            raise UserError(
                f"minutes: measuring held-out text once takes {each:.1f} s, more than half of them; give more minutes, "
                "or hold out less text (--held-out)"
            )
        fit = max(1, min(settings.checkpoints, int(whole * MEASURING / each)))
        if fit < settings.checkpoints:
            job.tell(f"measuring takes {each:.1f} s: {fit} times instead of {settings.checkpoints}")
            known["checkpoints"] = fit
        steps = int((whole - fit * each) / known["seconds_per_step"])
    steps = int(group.agree(float(max(1, steps))))
    if group.first:
        write_json(path, {**known, "steps": steps})
    return steps, int(group.agree(float(known.get("checkpoints", settings.checkpoints))))


def _learner(job: PretrainingJob, prepared: Prepared, steps: int) -> PretrainingLearner:
    student = prepared.student(job.settings)
    return PretrainingLearner(
        student, prepared.text, prepared.held, prepared.distillation, job.settings, steps, job.group
    )


def _train(job: PretrainingJob, prepared: Prepared) -> Outcome:
    steps, checkpoints = _budget(job, prepared)
    settings = replace(job.settings, checkpoints=checkpoints)
    job = replace(job, settings=settings)
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
