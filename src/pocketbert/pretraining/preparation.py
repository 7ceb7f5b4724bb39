"""Everything pretraining needs before its first step: corpus, batches, the teacher's vectors, a fresh student."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.heads import Pretraining
from pocketbert.pretraining.corpus import Corpus, Say, open_corpus, word_shares
from pocketbert.pretraining.distillation import CHUNK, DistillationBatches, ask_teacher, choose_sentences
from pocketbert.pretraining.examples import Examples, PretrainingBatch
from pocketbert.pretraining.objective import Student
from pocketbert.pretraining.settings import PretrainingSettings
from pocketbert.pretraining.teacher import Teacher, word_table
from pocketbert.training.loop import derived_seed
from pocketbert.training.machine import BFLOAT16_PAYS, has_bfloat16

HELD_BATCHES = 16  # measured after every part
WEIGHTS_SEED, HEADS_SEED, PROJECTION_SEED = 41, 42, 43  # what a derived seed is for


@dataclass(frozen=True, eq=False)
class Prepared:
    """What training reads."""

    corpus: Corpus
    text: Examples | None
    held: list[PretrainingBatch]
    distillation: DistillationBatches | None
    words: torch.Tensor | None  # a word table to start from
    counts: np.ndarray  # of each token in the training text

    def student(self, settings: PretrainingSettings) -> Student:
        """Fresh weights, from the seed alone."""
        tokenizer = self.corpus.tokenizer
        config = settings.shape(len(tokenizer), tokenizer.padding_id)
        encoder = Encoder(config, seed=derived_seed(settings.seed, WEIGHTS_SEED))
        if self.words is not None:
            with torch.no_grad():
                encoder.embeddings.word.weight.copy_(self.words)
        model = Pretraining(encoder, seed=derived_seed(settings.seed, HEADS_SEED) // 2)
        # The head's bias starts as what is known without reading: Adam would need thousands of steps to get there.
        with torch.no_grad():
            model.words.bias.copy_(torch.from_numpy(np.log(word_shares(self.counts))))
        width = None if self.distillation is None else self.distillation.width
        seed = derived_seed(settings.seed, PROJECTION_SEED)
        return Student(model, width, settings.teacher_pooling, seed, of_words=settings.learns_states)

    def tokens_per_step(self) -> float:
        """The mean over the first batches."""
        if self.text is not None:
            sizes = [self.text.batch(step).tokens_everywhere for step in range(min(20, self.text.batches))]
        else:
            assert self.distillation is not None
            sizes = [self.distillation.batch(step).tokens_everywhere for step in range(20)]
        return sum(sizes) / len(sizes)


def prepare(
    files: Sequence[Path], settings: PretrainingSettings, teacher: Teacher | None, cache: Path, say: Say
) -> Prepared:
    """Read the texts and ask the teacher, or find in `cache` what was read and asked before."""
    corpus = open_corpus(files, settings.reading(), cache, seed=settings.seed, say=say)
    told = corpus.metadata
    say(
        f"corpus: {told['tokens']:,} tokens, {told['sentences']:,} sentences, {told['documents']:,} documents "
        f"({told['held_out_documents']:,} held out), vocabulary {told['vocabulary']:,}"
    )
    name = files[0].name if len(files) == 1 else f"{files[0].name} and others"
    text = Examples(corpus, settings.drawing(), what=f"corpus {name}") if settings.reads else None
    distillation = words = None
    if teacher is not None and settings.distils:
        distillation = _distillation(corpus, settings, teacher, cache, say)
    if teacher is not None and settings.teacher_words:
        shape = settings.shape()
        words = torch.from_numpy(word_table(teacher, corpus.tokenizer, shape.width, shape.initial_std))
    return Prepared(corpus, text, held_batches(corpus, settings), distillation, words, corpus.word_counts())


def _distillation(
    corpus: Corpus, settings: PretrainingSettings, teacher: Teacher, cache: Path, say: Say
) -> DistillationBatches:
    size, length = settings.teacher_batch, settings.teacher_length
    whole = -(-settings.teacher_sentences // CHUNK) * CHUNK  # in whole chunks, so that a later run can add to them
    drawn = choose_sentences(corpus, whole, length, settings.seed)
    pays = teacher.width >= BFLOAT16_PAYS and has_bfloat16()
    precision = "bfloat16" if pays else "float32"
    targets = ask_teacher(
        teacher,
        corpus,
        drawn,
        cache,
        layer=settings.teacher_layer,
        drawn=(settings.seed, length),
        max_length=2 * length,  # its tokens may be shorter than ours
        precision=precision,
        device=settings.device,
        say=say,
    )
    chosen = drawn[: settings.teacher_sentences]
    if targets.counts is not None:
        say(
            f"teacher's layer {settings.teacher_layer}: the words of {(targets.counts > 0).sum():,} of {len(drawn):,} "
            f"sentences"
        )
    return DistillationBatches(corpus, chosen, targets, batch_size=size, max_length=length, seed=settings.seed)


def held_batches(corpus: Corpus, settings: PretrainingSettings) -> list[PretrainingBatch]:
    """The same held-out batches every time, of whole lengths, whatever this run's seed is."""
    if not settings.reads:
        return []
    drawing = replace(settings.drawing(), seed=0, short=0.0)
    while True:
        try:
            examples = Examples(corpus, drawing, held=True)
            return [examples.batch(step).to(settings.device) for step in range(min(HELD_BATCHES, examples.batches))]
        except UserError:  # fewer held-out stretches than a batch
            if drawing.batch_size == 1:
                return []
            drawing = replace(drawing, batch_size=drawing.batch_size // 2)
