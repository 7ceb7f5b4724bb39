"""Pretraining speed: our step beside `transformers`' `BertForPreTraining`, same batches, same precision, in turns.

    python -m benchmarks.pretraining                  tiny and mini, float32 and bfloat16, vocabularies of 12,000 (the
                                                      default) and 20,000 (our two models'); 25 minutes, an idle machine
    python -m benchmarks.pretraining --sizes mini --precisions bfloat16 --vocabularies 30522      one of them, or BERT's
    python -m benchmarks.pretraining --quick          does it work? seconds, numbers worth nothing
    python -m benchmarks.pretraining --json out.json  the numbers

Both sides learn masked words and next sentences from the same ready batches of 64 rows of up to 128 tokens: forward,
loss, backward, clipping at 1, AdamW with decay 0.01, no dropout. Theirs is the usual way: labels of -100 where nothing
is asked, torch's AdamW, fused as their `Trainer` has it. Ours makes its batches inside the timed step; theirs are made
before. Each side has a process of its own, ours as `pocketbert pretrain` sets it up, theirs as torch comes; a second
comparison gives theirs what ours sets for itself (freed memory kept for the next step, tiny numbers flushed to zero).
Two processes take turns, never more; a number is the median over the rounds.
"""

import argparse
import contextlib
import itertools
import json
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from pocketbert.pretraining.corpus import Corpus
from pocketbert.pretraining.distributed import Processes
from pocketbert.pretraining.examples import Examples, PretrainingBatch
from pocketbert.pretraining.learner import PretrainingLearner
from pocketbert.pretraining.preparation import Prepared
from pocketbert.pretraining.settings import PRECISIONS, PretrainingSettings, resolve_settings
from pocketbert.tokenizer import Tokenizer
from pocketbert.training.machine import computing, has_bfloat16

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
AS_IT_COMES, OUR_SETTINGS = "theirs", "theirs with our settings"


def random_corpus(vocabulary: int, documents: int = 600) -> Corpus:
    """Text without meaning, with the lengths of real text: speed does not ask for more."""
    random = np.random.default_rng(0)
    tokens = [*SPECIAL, *(f"w{i}" for i in range(vocabulary - len(SPECIAL)))]
    counts = random.integers(3, 30, documents)
    lengths = random.integers(4, 40, counts.sum())
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = random.integers(len(SPECIAL), vocabulary, starts[-1]).astype(np.uint16)
    firsts = np.concatenate([[0], np.cumsum(counts)])
    return Corpus(ids, starts, firsts, np.arange(documents) % 50 == 0, Tokenizer.from_tokens(tokens), {}, "random")


class Ours:
    """Our learner, as `pocketbert pretrain` runs it."""

    def __init__(self, corpus: Corpus, settings: PretrainingSettings) -> None:
        self.examples = Examples(corpus, settings.drawing())
        prepared = Prepared(corpus, self.examples, [], None, None, corpus.word_counts())
        self.learner = PretrainingLearner(
            prepared.student(settings), self.examples, [], None, settings, 10_000, Processes()
        )

    def step(self, number: int) -> None:
        self.learner.step(number)


class Theirs:
    """`BertForPreTraining` with torch's AdamW, on batches that are ready."""

    def __init__(self, batches: list[PretrainingBatch], settings: PretrainingSettings, vocabulary: int) -> None:
        import transformers

        shape = settings.shape(vocabulary)
        plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config = transformers.BertConfig(**{**shape.to_hugging_face(), **plain})
        self.model = transformers.BertForPreTraining(config).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
        self.bfloat16 = settings.precision == "bfloat16"
        self.batches = []
        for batch in batches:
            labels = torch.full_like(batch.input_ids, -100)
            labels.view(-1)[batch.places] = batch.words
            self.batches.append(
                {
                    "input_ids": batch.input_ids,
                    "attention_mask": batch.attention_mask,
                    "token_type_ids": batch.token_type_ids,
                    "labels": labels,
                    "next_sentence_label": batch.next_sentence_labels,
                }
            )

    def step(self, number: int) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16):
            loss = self.model(**self.batches[number % len(self.batches)]).loss
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


@contextlib.contextmanager
def just_threads(threads: int) -> Iterator[None]:
    torch.set_num_threads(threads)
    yield


def serve(pipe: Connection, name: str, settings: PretrainingSettings, vocabulary: int, steps: int) -> None:
    """One side's process: a round whenever it is asked, and what it measured."""
    given = just_threads if name == AS_IT_COMES else computing
    with given(settings.threads):
        ours = Ours(random_corpus(vocabulary), settings)
        batches = [ours.examples.batch(number) for number in range(steps)]
        tokens = sum(batch.tokens_everywhere for batch in batches)
        step = ours.step if name == "ours" else Theirs(batches, settings, vocabulary).step
        step(0)
        pipe.send(None)  # ready
        while pipe.recv():
            started = time.perf_counter()
            for number in range(steps):
                step(number)
            pipe.send(tokens / (time.perf_counter() - started))


class Side:
    """One side's process, seen from here; it sleeps until it is asked for a round."""

    def __init__(self, name: str, *rest: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, its = context.Pipe()
        self.process = context.Process(target=serve, args=(its, name, *rest), daemon=True)
        self.process.start()
        its.close()
        self.pipe.recv()

    def round(self) -> float:
        """Tokens a second."""
        self.pipe.send(True)
        return self.pipe.recv()

    def end(self) -> None:
        self.pipe.send(False)
        self.process.join()


def compare(size: str, precision: str, *, threads: int, rounds: int, steps: int, rows: int, vocabulary: int) -> dict:
    """Ours beside theirs as it comes, and beside theirs with our settings: median tokens a second and their ratio."""
    settings = resolve_settings(
        PretrainingSettings(size=size, steps=10_000, precision=precision, threads=threads, batch_size=rows, short=0.0)
    )
    line: dict[str, Any] = {"size": size, "precision": precision, "vocabulary": vocabulary}
    for rival in (AS_IT_COMES, OUR_SETTINGS):
        sides = [Side(name, settings, vocabulary, steps) for name in ("ours", rival)]
        measured = [[side.round() for side in sides] for _ in range(rounds)]
        for side in sides:
            side.end()
        ours, theirs = zip(*measured, strict=True)
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        line[rival] = {
            "ours": statistics.median(ours),
            "theirs": statistics.median(theirs),
            "ratio": statistics.median(ours) / statistics.median(theirs),
            "ratio_range": [min(ratios), max(ratios)],
        }
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "mini"])
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--vocabularies", nargs="+", type=int, default=[12_000, 20_000])
    given = parser.parse_args()
    amount = {"rounds": 2, "steps": 1, "rows": 16} if given.quick else {"rounds": 5, "steps": 6, "rows": 64}
    sizes, vocabularies = (["tiny"], [12_000]) if given.quick else (given.sizes, given.vocabularies)
    precisions = [one for one in given.precisions if one == "float32" or has_bfloat16()]
    lines = []
    for size, vocabulary, precision in itertools.product(sizes, vocabularies, precisions):
        line = compare(size, precision, threads=given.threads, vocabulary=vocabulary, **amount)
        lines.append(line)
        said = [
            f"{found['ratio']:.2f} times {rival} ({found['ratio_range'][0]:.2f} to {found['ratio_range'][1]:.2f}; "
            f"{found['ours']:,.0f} and {found['theirs']:,.0f} tokens a second)"
            for rival, found in ((name, line[name]) for name in (AS_IT_COMES, OUR_SETTINGS))
        ]
        print(f"{size}, {vocabulary:,} words, {precision}: {'; '.join(said)}", flush=True)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"threads": given.threads, "torch": torch.__version__, "lines": lines}, file, indent=2)


if __name__ == "__main__":
    main()
