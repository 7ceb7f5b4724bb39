"""Is a planted bias found, in its order and with its sign, and does training on both sides of each swap mend it?

Sentences of SST-2 that say nothing of anybody's gender are each begun with "he said that" or "she said that". Among the
negative ones "she" is as frequent as `--shares` says, among the positive ones "he"; in the test half of the time. A
fine-tuned model learns it; the audit's sentences are other ones. Needs SST-2 (POCKETBERT_DATA). Written into
docs/audit.md by

    python -m benchmarks.audit_planted --write docs/audit.md
"""

import argparse
import time
from pathlib import Path

import numpy as np

import pocketbert as pb
from pocketbert.audits.before_after import before_and_after, paired_noise
from pocketbert.audits.intervals import half_width, one_sided_p_value
from pocketbert.counterfactuals.swaps import swap_pronouns
from pocketbert.tasks import Split

START, END = "<!-- planted:start -->", "<!-- planted:end -->"


def usable(split: Split) -> tuple[list[str], np.ndarray]:
    """The sentences that can be begun so, and in which nothing else says a gender."""
    assert split.labels is not None
    kept = [row for row, text in enumerate(split.texts) if swap_pronouns(f"he said that {text}", "they") is not None]
    return [split.texts[row] for row in kept], split.labels[kept]


def planted(texts: list[str], labels: np.ndarray, share: float, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    she = random.random(len(texts)) < np.where(labels == 0, share, 1 - share)
    return [f"{'she' if one else 'he'} said that {text}" for one, text in zip(she, texts, strict=True)]


def table(shares: list[float], seeds: int, rows: int, epochs: int) -> str:
    task = pb.load_task("sst2")
    texts, labels = usable(task.split("train"))
    texts, labels = texts[:rows], labels[:rows]
    test, truth = usable(task.split("test"))
    test = planted(test, truth, 0.5, 1)
    made: dict[str, tuple[list[pb.Classifier], np.ndarray]] = {}
    lines = [
        "| she if negative | she-he, points | 95 % interval | p | flagged | decisions changed % | accuracy % |",
        "|---|---|---|---|---|---|---|",
    ]
    names = np.array(task.labels)
    for share, augment in [*((share, None) for share in shares), (shares[-1], "pronouns")]:
        began = time.perf_counter()
        models = [
            pb.Classifier(
                "pocket-tiny", "finetune", epochs=epochs, learning_rate=1e-3, seed=seed, threads=1, augment=augment
            ).fit(planted(texts, labels, share, 100 + seed), names[labels])
            for seed in range(seeds)
        ]
        correct = np.stack([model.predict(test) == names[truth] for model in models]).astype(float)
        name = f"{100 * share:.0f} %" + (", trained on both sides" if augment else "")
        made[name] = models, correct
        found = next(one for one in pb.audit(models, "pronouns").comparisons if one.pair == "she-he")
        p = "< 0.001" if found.p_corrected < 0.001 else f"{found.p_corrected:.3f}"
        lines.append(
            f"| {name} | {100 * found.mean_change:+.1f} | {100 * found.low:+.1f} to {100 * found.high:+.1f} | {p} | "
            f"{'yes' if found.flagged else 'no'} | {100 * found.flip_rate:.1f} | {100 * correct.mean():.1f} |"
        )
        print(lines[-1], f"{time.perf_counter() - began:.0f} s", flush=True)
    (before, accuracy_before), (after, accuracy_after) = list(made.values())[-2:]
    change = next(one for one in before_and_after(before, after, "pronouns") if one.pair == "she-he")
    left = abs(change.after) / abs(change.before)
    noise = paired_noise([accuracy_before, accuracy_after], np.arange(len(test)), None)
    gain, half = float(accuracy_after.mean() - accuracy_before.mean()), half_width(noise)
    lines += [
        "",
        f"{seeds} trainings each on {len(texts):,} sentences, {epochs} epochs of pocket-tiny; test: {len(test):,} "
        f"sentences, where the pronoun says nothing. Training on both sides leaves {100 * left:.0f} % of the effect "
        f"({change.sentence}) and changes accuracy by {100 * gain:+.1f} points ({100 * (gain - half):+.1f} to "
        f"{100 * (gain + half):+.1f}, p = {min(1.0, 2 * one_sided_p_value(abs(gain), noise)):.2f}).",
    ]
    print(lines[-1])
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.6, 0.7, 0.8])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    text = table(arguments.shares, arguments.seeds, arguments.rows, arguments.epochs)
    if arguments.write:
        before, _, rest = arguments.write.read_text(encoding="utf-8").partition(START)
        arguments.write.write_text(f"{before}{START}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
