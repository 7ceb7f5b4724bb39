"""Lesson: the best first word need not begin the best sentence; greedy and beam search."""

import math
from itertools import product

import numpy as np
import torch
from torch import Tensor

from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson
from pocketbert.translation import Hypothesis, beam_search, greedy

TOKENS, LENGTH, MODELS = 5, 4, 400  # a random language model: 4 words and an end, sentences of at most 4 tokens
END = 0
WIDTHS = (1, 2, 3, 4, 5, 6, 8, 10)


class Tree:
    """Random language models, one for each row: after every prefix, log-probabilities of its own.

    The state is the number of the prefix, one for each row, so a search that mixed its rows up would be noticed.
    """

    def __init__(self, models: int, seed: int, spread: float = 1.5) -> None:
        prefixes = sum(TOKENS**length for length in range(LENGTH))
        logits = np.random.default_rng(seed).normal(0, spread, (models, prefixes, TOKENS))
        self.table = torch.tensor(logits).log_softmax(dim=2)

    def start(self) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """A start token for each, and the state: which model, which prefix (−1: none yet)."""
        models = len(self.table)
        return torch.zeros(models, dtype=torch.long), (torch.arange(models), torch.full((models,), -1))

    def step(self, tokens: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        models, prefix = state
        prefix = torch.where(prefix < 0, 0, prefix * TOKENS + 1 + tokens).clamp(max=self.table.shape[1] - 1)
        return self.table[models, prefix], (models, prefix)

    def best(self) -> list[tuple[tuple[int, ...], float]]:
        """For each model the best of all sentences, by trying every one."""
        sentences, scores = [], []
        for length in range(1, LENGTH + 1):
            last = (END,) if length < LENGTH else tuple(range(TOKENS))
            for words in product(*[range(1, TOKENS)] * (length - 1), last):
                prefix, total = 0, torch.zeros(len(self.table), dtype=torch.float64)
                for token in words:
                    total = total + self.table[:, min(prefix, self.table.shape[1] - 1), token]
                    prefix = prefix * TOKENS + 1 + token
                sentences.append(words)
                scores.append(total)
        top = torch.stack(scores).max(dim=0)
        return [
            (sentences[index], value) for index, value in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]


def two_steps() -> tuple[Tensor, dict[str, float]]:
    """A: 0.7, then ten words of 0.1 each; B: 0.3, then one of 0.9. Rows: before anything, after A (1), after B (2)."""
    table = torch.zeros(3, 13, dtype=torch.float64)  # 0: end; 1: A; 2: B; 3 to 12: ten words
    table[0, 1], table[0, 2] = 0.7, 0.3
    table[1, 3:13] = 0.1
    table[2, 3] = 0.9
    table[2, 4:13] = 0.1 / 9
    return table.log(), {"A": 0.7 * 0.1, "B": 0.3 * 0.9}


@lesson(
    "decoding",
    "Decoding: greedy search misses, beam search finds",
    """A sentence that begins with A (0.7), whose best next word has 0.1, has 0.07; one that begins with B (0.3),
    then 0.9, has 0.27. Greedy search takes A. Beam search of width 2 finds B. It is still a search that can
    miss: less often, the wider it is.""",
)
def teach(page: LessonPage) -> None:
    page.section("Two steps")
    page.text(
        "A decoder gives, step by step, the probability of the next word after those so far. A sentence's probability "
        "is the product of its words'. Greedy search takes the most probable word at every step. Beam search of width "
        "W keeps the W most probable beginnings instead."
    )
    table, expected = two_steps()

    def step(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return table[torch.where(state < 0, 0, tokens)], state + 1

    start, state = torch.zeros(1, dtype=torch.long), torch.full((1,), -1)
    first = greedy(step, state, start, end=END, max_length=2)[0]
    beams = beam_search(step, state, start, end=END, max_length=2, width=2, best=2)[0]
    page.formula(
        "step 1   greedy: A 0.7              keeps A                beam of 2: A 0.7, B 0.3               "
        "  keeps A and B",
        "step 2   greedy: A, next 0.7 · 0.1 = 0.07                  beam of 2: A, next 0.07;  B, next 0.3 · 0.9 = 0.27",
        "result   greedy: 0.07                                      beam of 2: 0.27",
    )
    page.check(
        f"greedy search begins with A and ends at {_probability(first):.2f}",
        first.tokens[0] == 1 and abs(_probability(first) - expected["A"]) < 1e-9,
        greedy_probability=_probability(first),
    )
    page.check(
        f"beam search of width 2 begins with B and ends at {_probability(beams[0]):.2f}",
        beams[0].tokens[0] == 2 and abs(_probability(beams[0]) - expected["B"]) < 1e-9,
        beam_probability=_probability(beams[0]),
    )
    page.mistake(
        """“Take the most probable word at each step and you have the most probable sentence” would need a decoder
        whose next words do not depend on those before. Here the better sentence begins with a word that is less
        than half as probable."""
    )
    found, exact, wide = random_models(page)
    page.check(
        f"a width of {wide} leaves nothing out here, and finds the best sentence of every model: exhaustive search",
        exact == 1.0,
        exhaustive=exact,
    )
    page.text(
        "Logarithms are added instead of multiplying probabilities, which would soon be 0 in a computer's numbers. "
        "And sums of logarithms grow more negative with every word, so short sentences are favoured; dividing by a "
        "power of the length (`length_penalty`) counters that."
    )
    length_penalty(page)
    tree = draw_tree()
    curve = Panel(
        "beam width W", "best sentence found, %", (0, 10), (40, 100), title=f"{MODELS} random models", wide=330
    )
    curve.line(
        [(float(width), 100 * share) for width, share in found.items()], "beam search (W = 1: greedy)", markers=10
    )
    page.draw(
        figure([tree, curve], "The two-step example as a tree, and how often beam search finds the best sentence"),
        """Left: the example; greedy search follows the solid line, and never sees the 0.27. Right: how often the
        best of all sentences is found, by beam width; a width of 1 is greedy search.""",
    )


def random_models(page: LessonPage) -> tuple[dict[int, float], float, int]:
    page.section("How often does it miss?")
    page.text(
        f"{MODELS} random language models: {TOKENS - 1} words and an end, at most {LENGTH} tokens, and after every "
        "beginning probabilities of their own (softmax of normal scores with standard deviation 1.5). They are small "
        "enough to try every sentence, so we know the best one of each."
    )
    models = Tree(MODELS, seed=0)
    best = models.best()
    start, state = models.start()
    found = {}
    for width in WIDTHS:
        beams = beam_search(models.step, state, start, end=END, max_length=LENGTH, width=width)
        found[width] = float(np.mean([beam[0].tokens == words for beam, (words, _) in zip(beams, best, strict=True)]))
    singles = greedy(models.step, state, start, end=END, max_length=LENGTH)
    by_greedy = float(np.mean([one.tokens == words for one, (words, _) in zip(singles, best, strict=True)]))
    error = max(abs(_sum_of(models, row, one) - one.log_probability) for row, one in enumerate(singles))
    page.table(
        ["search", "finds the best sentence"],
        [["greedy", f"{100 * by_greedy:.1f} %"]]
        + [[f"beam, width {w}", f"{100 * found[w]:.1f} %"] for w in (2, 5, 10)],
    )
    page.check(
        f"greedy search misses the best sentence of {100 * (1 - by_greedy):.0f} % of the models; width 2 of "
        f"{100 * (1 - found[2]):.0f} %, width 5 of {100 * (1 - found[5]):.1f} %",
        by_greedy < found[2] < found[5],
        found_by_greedy=by_greedy,
        found_by_width=found,
    )
    page.check("a beam of width 1 is greedy search: the same sentences", by_greedy == found[1])
    page.check(
        "a sentence's score is the sum of its words' log-probabilities, to 1e-9", error < 1e-9, score_error=error
    )
    wide = sum((TOKENS - 1) ** length for length in range(LENGTH)) * TOKENS  # more than there are sentences
    beams = beam_search(models.step, state, start, end=END, max_length=LENGTH, width=wide)
    exact = float(np.mean([beam[0].tokens == words for beam, (words, _) in zip(beams, best, strict=True)]))
    return found, exact, wide


def length_penalty(page: LessonPage) -> None:
    models = Tree(100, seed=1)
    start, state = models.start()
    lengths = []
    for penalty in (0.0, 1.0):
        beams = beam_search(models.step, state, start, end=END, max_length=LENGTH, width=10, length_penalty=penalty)
        lengths.append(float(np.mean([len(beam[0].tokens) for beam in beams])))
    page.check(
        f"width 10, 100 other models: sentences of {lengths[0]:.1f} tokens on average by the sum, of {lengths[1]:.1f} "
        "by the mean (penalty 1)",
        lengths[1] > lengths[0],
        mean_length=lengths,
    )


def _probability(hypothesis: Hypothesis) -> float:
    return math.exp(hypothesis.log_probability)


def _sum_of(models: Tree, row: int, hypothesis: Hypothesis) -> float:
    prefix, total = 0, 0.0
    for token in hypothesis.tokens:
        total += float(models.table[row, prefix, token])
        prefix = min(prefix * TOKENS + 1 + token, models.table.shape[1] - 1)
    return total


def draw_tree() -> Panel:
    panel = Panel(
        "step",
        "first word",
        (-0.15, 2.5),
        (0, 1),
        x_names={0.0: "0", 1.0: "1", 2.0: "2"},
        y_names={0.75: "A", 0.25: "B"},
        title="A or B",
        wide=370,
        left=48,
    )
    places = {"start": (0, 0.5), "A": (1, 0.75), "B": (1, 0.25), "A next": (2, 0.75), "B next": (2, 0.25)}
    panel.line([places["start"], places["A"], places["A next"]], "greedy search", markers=3, style=0)
    panel.line(
        [places["start"], places["B"], places["B next"]],
        "the better sentence: found by a beam of 2",
        markers=3,
        style=1,
    )
    panel.write((0.45, 0.72), "A 0.7")
    panel.write((0.45, 0.28), "B 0.3")
    panel.write((1.5, 0.81), "0.1")
    panel.write((1.5, 0.31), "0.9")
    panel.write((2.1, 0.75), "0.07", anchor="start")
    panel.write((2.1, 0.25), "0.27", anchor="start")
    return panel
