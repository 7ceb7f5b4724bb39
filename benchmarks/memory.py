"""Does pretraining need more memory the longer it runs? Mini with text and a teacher, pass after pass.

    python -m benchmarks.memory [--size mini] [--passes 8]

Every line is a pass over the teacher's sentences, in batches of other lengths each time: what the process holds after
it (mapped files apart), and the most it had in it. The first shows whether anything piles up. The second is what the
longest sentences of a step need, and what the C library keeps of freed blocks until it is asked to give them back.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.report import align
from benchmarks.texts import write_random_text
from pocketbert.pretraining import PretrainingSettings, pretrain
from pocketbert.training.machine import forget_peak_memory, kernel_says, peak_memory

SENTENCES, BATCH = 8_192, 128


def held_memory() -> int:
    """Bytes of this process that are no file's."""
    held = kernel_says("RssAnon")
    if held is None:
        raise SystemExit("this system does not tell a process's own memory")
    return held


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="mini")
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    held: list[int] = []
    most: list[int] = []

    def after_a_part(message: str) -> None:
        if message.startswith("step "):
            most.append(peak_memory())
            forget_peak_memory()
            held.append(held_memory())
            print(f"pass {len(held)}: {held[-1] / 1e9:.2f} GB held, at most {most[-1] / 1e9:.2f} GB", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        text, cache = Path(folder) / "text.jsonl", Path(folder) / "cache"
        write_random_text(text)
        settings = PretrainingSettings(
            size=options.size,
            steps=options.passes * (SENTENCES // BATCH),
            checkpoints=options.passes,
            batch_size=8,
            teacher="minilm-l6",
            teacher_layer=5,
            teacher_sentences=SENTENCES,
            teacher_batch=BATCH,
            threads=options.threads,
        )
        pretrain(text, Path(folder) / "out", settings, cache=cache, say=after_a_part)
    middle = len(held) // 2
    rows = []
    for name, seen in (("held after a pass", held), ("most in a pass", most)):
        first, second = max(seen[:middle]), max(seen[middle:])
        rows.append([name, f"{first / 1e9:.2f} GB", f"{second / 1e9:.2f} GB", f"{second / first - 1:+.1%}"])
    print("\n".join(align([["", "first half", "second half", "more"], *rows])))


if __name__ == "__main__":
    main()
