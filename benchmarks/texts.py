"""Text without meaning, with the lengths of real text: enough to measure speed and memory of pretraining."""

import json
from pathlib import Path

import numpy as np


def write_random_text(path: Path, *, documents: int = 1_000, words: int = 5_000) -> None:
    """JSON lines, a document each, of 3 to 30 sentences of 4 to 40 words; frequent words and rare ones (Zipf)."""
    random = np.random.default_rng(0)
    shares = 1 / np.arange(1, words + 1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    names = ["".join(letters[random.integers(0, 26, random.integers(3, 9))]) for _ in range(words)]
    with path.open("w", encoding="utf-8") as file:
        for _ in range(documents):
            sentences = []
            for _ in range(random.integers(3, 30)):
                drawn = random.choice(words, random.integers(4, 40), p=shares / shares.sum())
                sentences.append(" ".join(names[i] for i in drawn).capitalize() + ".")
            file.write(json.dumps({"text": " ".join(sentences)}) + "\n")
