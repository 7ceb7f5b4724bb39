"""Many small studies on real data, each drawn from a large set whose other rows tell the truth.

`python -m benchmarks.real_studies --dataset sst2 --rows 1000 --studies 200 --out FOLDER` draws studies, trains every
row of each, and writes one file per study: what every training predicted on the rows it was tested on, and how it did
on all the rows that the study never saw. benchmarks/coverage_real.py reads them. A second call goes on where the first
one stopped.

The rows of a study: TF-IDF, its vocabulary and weights fitted inside each training part; linear heads on the frozen
features of three encoders, which are computed once; and, on demand, fine-tuned pocket-tiny. Every neural training cuts
its own dev rows from its training part, and dev chooses the epoch. Heads are trained many at once, with the package's
defaults for `frozen` (AdamW, 20 epochs, dropout 0.1, batches of 32; above 1,000 rows of 128, to be done sooner). All
randomness comes from (data set, study).
"""

import argparse
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from pocketbert import load_task
from pocketbert.embed import SentenceEncoder
from pocketbert.loading import load_model
from pocketbert.methods import get_method
from pocketbert.methods.base import DataSize
from pocketbert.methods.tfidf import _joined, _vectorizer
from pocketbert.tasks import Split
from pocketbert.tasks.split import connected
from pocketbert.training.job import Job, JobTask

FOLDS = 5
DEV = 0.1  # of a training part
MOST_ROWS = 20_000  # of a data set: enough that a study is a small share of it
LARGEST_GROUP = 10  # texts that share a sentence; larger groups are left out
FINETUNE = {"epochs": 4, "batch_size": 8}  # 180 steps on 360 rows; with 45 it says one class of nearly every text
SCORED_BY_FINETUNED = 1_000  # of the other rows: reading all would take longer than the training
ENCODERS = ("pocket-tiny", "pocket-mini", "minilm-l6")
TWICE = "pocket-mini"  # is trained with two disjoint sets of seeds, so that false alarms can be counted
EPOCHS, BATCH, RATE, DROPOUT, DECAY, WARMUP, CLIP = 20, 32, 3e-3, 0.1, 0.01, 0.1, 1.0


@dataclass(frozen=True, eq=False)
class Population:
    """All labelled rows of a data set, with what training needs of each."""

    split: Split
    labels: np.ndarray
    names: tuple[str, ...]
    groups: np.ndarray  # rows that share a sentence share a number
    counts: sparse.csr_matrix  # of words and word pairs
    features: dict[str, torch.Tensor]


def population(name: str, folder: Path) -> Population:
    """A data set with its splits put together; its features are kept in the folder."""
    task = load_task(name)
    parts = [split for split in task.splits.values() if split.labels is not None]
    whole = Split(
        [text for part in parts for text in part.texts],
        [text for part in parts for text in part.second_texts or ()] if task.pair else None,
        np.concatenate([part.labels for part in parts if part.labels is not None]),
    )
    groups = np.unique(connected(whole), return_inverse=True)[1]
    small = np.flatnonzero(np.bincount(groups)[groups] <= LARGEST_GROUP)
    order = np.random.default_rng(0).permutation(groups.max() + 1)[groups[small]]
    whole = whole.take(np.sort(small[np.argsort(order, kind="stable")][:MOST_ROWS]))
    groups = np.unique(connected(whole), return_inverse=True)[1]
    vectorizer = _vectorizer()
    counter = CountVectorizer(ngram_range=vectorizer.ngram_range, token_pattern=vectorizer.token_pattern)
    counts = counter.fit_transform(_joined(whole)).tocsr()
    features = {}
    for model in ENCODERS:
        path = folder / f"features-{name}-{model}.npy"
        if not path.exists():
            print(f"features of {model} …", file=sys.stderr, flush=True)
            np.save(path, SentenceEncoder(model)(whole.texts, whole.second_texts))
        features[model] = torch.from_numpy(np.load(path))
    assert whole.labels is not None
    return Population(whole, whole.labels, task.labels, groups, counts, features)


def draw_rows(groups: np.ndarray, rows: int, random: np.random.Generator) -> np.ndarray:
    """About so many rows: whole groups in random order, until they are enough."""
    order = random.permutation(groups.max() + 1)[groups]
    ranked = np.argsort(order, kind="stable")
    last = order[ranked[rows - 1]]
    return np.flatnonzero(order <= last)


def deal(groups: np.ndarray, labels: np.ndarray, parts: int, random: np.random.Generator) -> np.ndarray:
    """Each row's part: groups stay together, labels are spread evenly."""
    _, first, members = np.unique(groups, return_index=True, return_inverse=True)
    sizes = np.bincount(members)
    order = random.permutation(len(first))
    order = order[np.argsort(labels[first][order], kind="stable")]  # the first row's label stands for its group
    filled = np.zeros(parts)
    place = np.zeros(len(first), dtype=np.int64)
    ties = random.permutation(parts)
    for group in order:
        place[group] = ties[int(np.argmin(filled[ties]))]
        filled[place[group]] += sizes[group]
    return place[members]


def cut_dev(
    rows: np.ndarray, groups: np.ndarray, labels: np.ndarray, share: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and dev rows."""
    part = deal(groups[rows], labels[rows], round(1 / share), random)
    return rows[part != 0], rows[part == 0]


def fit_tfidf(data: Population, train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """What the package's `tfidf` predicts: its vectoriser and regression, from counts that were made once."""
    seen = np.asarray((data.counts[train] > 0).sum(axis=0)).ravel()
    known = np.flatnonzero(seen)
    inverse = np.log((1 + len(train)) / (1 + seen[known])) + 1

    def weighted(which: np.ndarray) -> sparse.csr_matrix:
        values = data.counts[which][:, known].astype(np.float64)
        values.data = 1 + np.log(values.data)
        values = values.multiply(inverse).tocsr()
        norms = np.sqrt(np.asarray(values.multiply(values).sum(axis=1)).ravel())
        return sparse.diags(1 / np.maximum(norms, 1e-12)) @ values

    model = LogisticRegression(C=10.0, max_iter=2_000)
    model.fit(weighted(train), data.labels[train])
    return model.predict(weighted(rows))


def train_heads(
    features: torch.Tensor,
    labels: np.ndarray,
    classes: int,
    jobs: list[tuple[np.ndarray, np.ndarray]],
    random: np.random.Generator,
) -> torch.Tensor:
    """Linear heads for several (train, dev), one seed each: (jobs, width + 1, classes), at the best epoch on dev."""
    count, width = len(jobs), features.shape[1]
    generator = torch.Generator().manual_seed(int(random.integers(2**62)))
    weights = torch.zeros(count, width + 1, classes)
    weights[:, :-1] = 0.02 * torch.randn(count, width, classes, generator=generator)
    mean, square = torch.zeros_like(weights), torch.zeros_like(weights)
    truth = torch.nn.functional.one_hot(torch.from_numpy(labels), classes).float()
    rows = max(len(train) for train, _ in jobs)
    batch, fastest = (BATCH, RATE) if rows <= 1000 else (4 * BATCH, 2 * RATE)  # larger steps where there are many rows
    steps = math.ceil(rows / batch)
    total, done = steps * EPOCHS, 0
    longest = max(len(dev) for _, dev in jobs)
    dev_rows = torch.from_numpy(np.stack([np.resize(dev, longest) for _, dev in jobs]))
    counted = torch.from_numpy(np.stack([np.arange(longest) < len(dev) for _, dev in jobs]))
    # Masks are read from random places of one long draw: drawing each anew would be most of the work.
    masks = torch.empty(2**21).bernoulli_(1 - DROPOUT, generator=generator).div_(1 - DROPOUT)
    best, best_score = weights.clone(), torch.full((count,), -1.0)
    for _ in range(EPOCHS):
        orders = torch.from_numpy(np.stack([np.resize(random.permutation(train), steps * batch) for train, _ in jobs]))
        for begin in range(0, steps * batch, batch):
            taken = orders[:, begin : begin + batch]
            x = features[taken]  # (M, B, H)
            place = int(random.integers(len(masks) - x.numel()))
            x *= masks[place : place + x.numel()].view_as(x)
            error = (torch.baddbmm(weights[:, -1:], x, weights[:, :-1]).softmax(dim=2) - truth[taken]) / batch
            gradient = torch.cat([x.transpose(1, 2) @ error, error.sum(dim=1, keepdim=True)], dim=1)
            norm = gradient.flatten(1).norm(dim=1)
            gradient *= (CLIP / (norm + 1e-6)).clamp(max=1.0)[:, None, None]
            done += 1
            rate = fastest * min(done / (WARMUP * total), (total - done) / ((1 - WARMUP) * total))
            mean.mul_(0.9).add_(gradient, alpha=0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            weights[:, :-1] *= 1 - rate * DECAY
            size = (square / (1 - 0.999**done)).sqrt_().add_(1e-8)
            weights.addcdiv_(mean, size, value=-rate / (1 - 0.9**done))
        said = torch.baddbmm(weights[:, -1:], features[dev_rows], weights[:, :-1]).argmax(dim=2)
        right = (said == torch.from_numpy(labels)[dev_rows]) & counted
        score = right.sum(dim=1) / counted.sum(dim=1)
        better = score > best_score
        best[better], best_score[better] = weights[better], score[better]
    return best


def said_by(heads: torch.Tensor, features: torch.Tensor) -> np.ndarray:
    """(heads, rows) of predicted labels."""
    return (features @ heads[:, :-1] + heads[:, -1:]).argmax(dim=2).numpy()


def fit_finetuned(
    data: Population, jobs: list[tuple[np.ndarray, np.ndarray]], tests: list[np.ndarray], seed: int
) -> list[np.ndarray]:
    """Fine-tuned pocket-tiny as the package trains it, one seed per job: what each says of its test rows."""
    method, start = get_method("finetune"), load_model("pocket-tiny")
    found = []
    for number, ((train, dev), rows) in enumerate(zip(jobs, tests, strict=True)):
        size = DataSize(len(train), len(data.names))
        settings = method.resolve(method.read({**FINETUNE, "seed": seed + number, "threads": 1}), start, size)
        task = JobTask("study", data.names, data.split.take(train), data.split.take(dev))
        texts = data.split.take(rows)
        fitted = method.fit(Job((task,), settings, start)).fitted
        found.append(fitted.probabilities(texts.texts, texts.second_texts).argmax(axis=1))
    return found


def confusions(labels: np.ndarray, said: np.ndarray, classes: int) -> np.ndarray:
    return np.bincount(labels * classes + said, minlength=classes**2).reshape(classes, classes)


def make_study(data: Population, name: str, rows: int, number: int, repeats: int, finetune: bool) -> dict[str, Any]:
    """One study under folds and, beside it, one 80/10/10 split: predictions, and how each training did on the rest."""
    random = np.random.default_rng([sum(name.encode()), rows, number])
    chosen = draw_rows(data.groups, rows, random)
    rest = np.setdiff1d(np.arange(len(data.labels)), chosen)
    groups, labels, classes = data.groups[chosen], data.labels[chosen], len(data.names)
    folds = np.stack([deal(groups, labels, FOLDS, random) for _ in range(repeats)])
    tenth = deal(groups, labels, 10, random)
    held = tenth == 0
    split_job = (chosen[tenth > 1], chosen[tenth == 1])
    jobs = [  # (repeat, fold) in order
        cut_dev(chosen[folds[repeat] != fold], data.groups, data.labels, DEV, random)
        for repeat in range(repeats)
        for fold in range(FOLDS)
    ]
    trainings = [(repeat, fold) for repeat in range(repeats) for fold in range(FOLDS)]
    found: dict[str, Any] = {"chosen": chosen, "labels": labels, "clusters": groups, "folds": folds, "held": held}

    def keep(row: str, said: np.ndarray, rest_rows: np.ndarray, said_rest: np.ndarray) -> None:
        """`said`: (trainings, rows of the study) of which each training's own fold is read."""
        predictions = np.zeros((repeats, len(chosen)), dtype=np.int16)
        for (repeat, fold), one in zip(trainings, said, strict=True):
            predictions[repeat][folds[repeat] == fold] = one[folds[repeat] == fold]
        found[f"folds/{row}"] = predictions
        found[f"truth/{row}"] = np.stack([confusions(data.labels[rest_rows], one, classes) for one in said_rest])

    everything = np.arange(len(data.labels))
    words = np.stack([fit_tfidf(data, chosen[folds[repeat] != fold], everything) for repeat, fold in trainings])
    keep("tfidf", words[:, chosen], rest, words[:, rest])
    found["split/tfidf"] = fit_tfidf(data, chosen[tenth > 0], chosen[held])[None]
    for model in ENCODERS:
        features = data.features[model]
        twice = 2 if model == TWICE else 1
        heads = train_heads(features, data.labels, classes, jobs * twice + [split_job] * (5 * twice), random)
        for copy in range(twice):
            said = said_by(heads[copy * len(jobs) : (copy + 1) * len(jobs)], features)
            keep(model + ("", "/again")[copy], said[:, chosen], rest, said[:, rest])
        found[f"split/{model}"] = said_by(heads[len(jobs) * twice :], features[chosen[held]])
    if finetune:
        sample = rest[random.permutation(len(rest))[:SCORED_BY_FINETUNED]]
        both = np.concatenate([chosen, sample])
        said = np.stack(fit_finetuned(data, jobs, [both] * len(jobs), 1000 * number))
        keep("finetune", said[:, : len(chosen)], sample, said[:, len(chosen) :])
    return found


def study_folder(out: Path, name: str, rows: int, finetune: bool) -> Path:
    return out / f"{name}-{rows}{'-finetune' if finetune else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_studies", description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="sst2", help="sst2, qnli, snli or another built-in task")
    parser.add_argument("--rows", type=int, default=1000, help="of a study")
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first study; other numbers are other draws")
    parser.add_argument("--repeats", type=int, default=1, help="draws of the folds")
    parser.add_argument("--finetune", action="store_true", help="also fine-tune pocket-tiny, once per fold")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where studies are kept")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    folder = study_folder(options.out, options.dataset, options.rows, options.finetune)
    folder.mkdir(parents=True, exist_ok=True)
    data = population(options.dataset, options.out)
    started, made = time.perf_counter(), 0
    for number in range(options.first, options.first + options.studies):
        path = folder / f"{number:04d}.npz"
        if path.exists():
            continue
        study = make_study(data, options.dataset, options.rows, number, options.repeats, options.finetune)
        part = path.with_suffix(".part.npz")
        np.savez(part, **study)
        part.rename(path)
        made += 1
        if made % 10 == 1:
            print(f"{number + 1}: {(time.perf_counter() - started) / made:.2f} s each", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
