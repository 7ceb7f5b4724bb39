"""Pretraining speed: our step beside `transformers`' `BertForPreTraining`, same batches, same precision, in turns.

    python -m benchmarks.pretraining                  tiny and mini, float32 and bfloat16, vocabularies of 12,000 (the
                                                      default) and 20,000 (our two models'); 20 minutes, an idle machine
    python -m benchmarks.pretraining --sizes mini --precisions bfloat16 --vocabularies 30522      one of them, or BERT's
    python -m benchmarks.pretraining --quick          does it work? seconds, numbers worth nothing
    python -m benchmarks.pretraining --json out.json  the numbers

Both sides learn masked words and next sentences from the same ready batches of 64 rows of up to 128 tokens: forward,
loss, backward, clipping at 1, AdamW with decay 0.01, no dropout. Theirs is the usual way: labels of -100 where nothing
is asked, torch's AdamW (and again with `fused=True`). Ours makes its batches inside the timed step; theirs are made
before. A number is the median over rounds that alternate.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pocketbert.pretraining.corpus import Corpus
from pocketbert.pretraining.distributed import Processes
from pocketbert.pretraining.examples import Batch, Examples
from pocketbert.pretraining.learner import PretrainingLearner
from pocketbert.pretraining.preparation import Prepared
from pocketbert.pretraining.settings import PRECISIONS, PretrainingSettings, resolve
from pocketbert.tokenizer import Tokenizer
from pocketbert.training.machine import computing, has_bfloat16

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


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

    def __init__(self, batches: list[Batch], settings: PretrainingSettings, vocabulary: int, *, fused: bool) -> None:
        import transformers

        shape = settings.shape(vocabulary)
        plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config = transformers.BertConfig(**{**shape.to_hugging_face(), **plain})
        self.model = transformers.BertForPreTraining(config).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.01, fused=fused)
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
                    "next_sentence_label": batch.strange,
                }
            )

    def step(self, number: int) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16):
            loss = self.model(**self.batches[number % len(self.batches)]).loss
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


def compare(size: str, precision: str, *, threads: int, rounds: int, steps: int, rows: int, vocabulary: int) -> dict:
    """Median tokens a second of each side, and of making batches alone."""
    corpus = random_corpus(vocabulary)
    settings = resolve(
        PretrainingSettings(size=size, steps=10_000, precision=precision, threads=threads, batch_size=rows, short=0.0)
    )
    ours = Ours(corpus, settings)
    batches = [ours.examples.batch(number) for number in range(steps)]
    tokens = [batch.tokens_everywhere for batch in batches]
    sides: dict[str, Callable[[int], Any]] = {
        "ours": ours.step,
        "theirs": Theirs(batches, settings, vocabulary, fused=False).step,
        "theirs, fused AdamW": Theirs(batches, settings, vocabulary, fused=True).step,
        "making batches": ours.examples.batch,
    }
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side(0)
    for _ in range(rounds):
        for name, side in sides.items():
            started = time.perf_counter()
            for number in range(steps):
                side(number)
            speeds[name].append(sum(tokens) / (time.perf_counter() - started))
    median = {name: statistics.median(found) for name, found in speeds.items()}
    ratios = [a / b for a, b in zip(speeds["ours"], speeds["theirs"], strict=True)]
    return {
        "size": size,
        "precision": precision,
        "vocabulary": vocabulary,
        "tokens_per_second": median,
        "ratio": median["ours"] / median["theirs"],
        "ratio_range": [min(ratios), max(ratios)],
        "ratio_fused": median["ours"] / median["theirs, fused AdamW"],
        "share_of_making_batches": median["ours"] / median["making batches"],
    }


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
    with computing(given.threads):
        for size, vocabulary, precision in itertools.product(sizes, vocabularies, precisions):
            line = compare(size, precision, threads=given.threads, vocabulary=vocabulary, **amount)
            lines.append(line)
            low, high = line["ratio_range"]
            speed = ", ".join(f"{name} {value:,.0f}" for name, value in line["tokens_per_second"].items())
            print(
                f"{size}, {vocabulary:,} words, {precision}: {line['ratio']:.2f} times theirs ({low:.2f} to "
                f"{high:.2f}; fused AdamW {line['ratio_fused']:.2f}); making batches "
                f"{100 * line['share_of_making_batches']:.1f} % of a step; tokens a second: {speed}",
                flush=True,
            )
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"threads": given.threads, "torch": torch.__version__, "lines": lines}, file, indent=2)


if __name__ == "__main__":
    main()
