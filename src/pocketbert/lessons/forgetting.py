"""Lesson: a network that learns a second task forgets the first; replay helps. Small, and live."""

from itertools import product

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson
from pocketbert.loading import load_encoder, load_tokenizer

MODEL = "pocket-tiny"
QUESTIONS = ("is it good ?", "is it food ?")
THINGS = {
    1: ("soup", "bread", "cake", "salad", "cheese", "rice", "pie", "steak"),
    0: ("film", "novel", "song", "play", "poem", "opera", "comedy", "show"),
}
WORDS = {
    1: ("lovely", "great", "wonderful", "excellent", "superb"),
    0: ("awful", "terrible", "dreadful", "horrible", "bad"),
}
FRAMES = ("the {0} was {1} .", "what a {1} {0} !")
HIDDEN, STEPS, SEEDS, EVERY = 32, 120, 5, 10
SHARES = (0.0, 0.1, 0.4, 1.0)  # of the first task's training examples that are replayed


def sentences() -> tuple[list[str], np.ndarray]:
    """Every thing with every word in every frame; (sentences, 2): is it good, is it food."""
    made, labels = [], []
    for frame, (food, things), (good, words) in product(FRAMES, THINGS.items(), WORDS.items()):
        for thing, word in product(things, words):
            made.append(frame.format(thing, word))
            labels.append((good, food))
    return made, np.array(labels)


def features() -> tuple[Tensor, Tensor]:
    """The frozen model's mean vectors of question and sentence (2, sentences, width); the labels (2, sentences)."""
    texts, labels = sentences()
    encoder, tokenizer = load_encoder(MODEL, quiet=True), load_tokenizer(MODEL)
    made = []
    for question in QUESTIONS:
        batch = tokenizer([question] * len(texts), texts).tensors()
        with torch.inference_mode():
            states = encoder(**batch).last_hidden_state
        mask = batch["attention_mask"][:, :, None]
        made.append((states * mask).sum(1) / mask.sum(1))
    vectors = torch.stack(made).double().clone()
    return (vectors - vectors.mean((0, 1))) / vectors.std((0, 1)), torch.tensor(labels.T.copy())


class Networks:
    """One hidden layer and one pair of outputs for both questions, for several seeds side by side.

    They are told the question in the text, and nowhere else.
    """

    def __init__(self, inputs: int, seeds: int) -> None:
        shapes = (inputs, HIDDEN), (1, HIDDEN), (HIDDEN, 2), (1, 2)
        scales = inputs**-0.5, 0.0, HIDDEN**-0.5, 0.0
        drawn = [
            np.stack([scale * np.random.default_rng([seed, number]).normal(size=shape) for seed in range(seeds)])
            for number, (shape, scale) in enumerate(zip(shapes, scales, strict=True))
        ]
        self.parameters = [torch.tensor(part, requires_grad=True) for part in drawn]
        self.optimizer = torch.optim.Adam(self.parameters, lr=0.01)

    def __call__(self, x: Tensor) -> Tensor:
        inner_w, inner_b, outer_w, outer_b = self.parameters
        return torch.tanh(x @ inner_w + inner_b) @ outer_w + outer_b  # (seeds, sentences, 2)

    def learn(self, x: Tensor, y: Tensor) -> None:
        """One step of Adam for each seed, on all its sentences at once."""
        loss = F.cross_entropy(self(x).flatten(0, 1), y.flatten(), reduction="sum") / y.shape[1]
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def accuracy(self, x: Tensor, y: Tensor) -> list[float]:
        return (self(x).argmax(2) == y).double().mean(1).tolist()


def replayed(first: Tensor, share: float) -> Tensor:
    """What is kept of the first task's training examples (seeds, sentences, …) while the second is learned."""
    return first[:, : round(share * first.shape[1])]


def run(x: Tensor, y: Tensor, share: float) -> np.ndarray:
    """Learn the first task, then the second with a share of the first's examples: (seeds, times, 2) test accuracy."""
    orders = torch.tensor(np.stack([np.random.default_rng([seed, 9]).permutation(x.shape[1]) for seed in range(SEEDS)]))
    cut = x.shape[1] * 3 // 4
    train, test = orders[:, :cut], orders[:, cut:]
    networks = Networks(x.shape[2], SEEDS)

    def scores() -> list[list[float]]:
        return [networks.accuracy(x[task, test], y[task, test]) for task in (0, 1)]

    kept = replayed(x[0, train], share), replayed(y[0, train], share)
    phases = ((x[0, train], y[0, train]), (torch.cat([x[1, train], kept[0]], 1), torch.cat([y[1, train], kept[1]], 1)))
    found = [scores()]
    for inputs, labels in phases:
        for step in range(1, STEPS + 1):
            networks.learn(inputs, labels)
            if step % EVERY == 0:
                found.append(scores())
    return np.array(found).transpose(2, 0, 1)


@lesson(
    "forgetting",
    "Forgetting: learning a second task undoes the first",
    """A network trained on one task and then on another forgets the first. Replaying some of the first task's
    examples while it learns the second helps, the more the better.""",
)
def teach(page: LessonPage) -> None:
    x, y = features()
    count = x.shape[1]
    page.section("Two questions, one network")
    texts, _ = sentences()
    page.text(
        f"{count} sentences made from {len(FRAMES)} frames, {sum(map(len, THINGS.values()))} things and "
        f"{sum(map(len, WORDS.values()))} words, such as “{texts[0]}” and “{texts[-1]}” Two tasks: “{QUESTIONS[0]}” "
        f"and “{QUESTIONS[1]}” The question is put before the sentence, {MODEL} (frozen) makes one vector of both, "
        f"and a small network ({x.shape[2]} inputs, {HIDDEN} hidden units, 2 outputs for no and yes) answers. The "
        "vector tells which question was asked, so one network can learn both."
    )
    page.text(
        f"First {STEPS} steps on the first task, then {STEPS} on the second, which says nothing about the first. The "
        "gradient of the second task's loss moves the same weights, and nothing in it holds the first task's answers "
        "in place. Replay: a share of the first task's training examples stays in the batch. Three quarters of the "
        f"sentences train, the rest test; {SEEDS} seeds draw weights and split."
    )
    page.formula(
        "first task    θ ← θ − η ∇L₁(θ)",
        "second task   θ ← θ − η ∇L₂(θ)                          L₁ is nowhere in it",
        "with replay   θ ← θ − η ∇(L₂ + L₁ on what is replayed)(θ)",
        "θ: the weights;  L₁, L₂: the tasks' losses;  ∇: the gradient;  η: the step (Adam makes one for each weight)",
    )
    curves = {share: run(x, y, share) for share in SHARES}
    half = STEPS // EVERY
    names = {share: f"{round(100 * share)} % replayed" if share else "nothing replayed" for share in SHARES}

    def shown(values: np.ndarray) -> str:
        return f"{100 * values.mean():.0f} % ({100 * values.min():.0f} to {100 * values.max():.0f})"

    page.table(
        ["while the second is learned", "first task, before", "first task, after", "second task, after"],
        [[names[share], shown(c[:, half, 0]), shown(c[:, -1, 0]), shown(c[:, -1, 1])] for share, c in curves.items()],
    )
    page.text(f"Mean test accuracy, and from the worst to the best of {SEEDS} seeds. Guessing has 50 %.")
    plain, everything = curves[0.0], curves[1.0]
    before, after = plain[:, half, 0].mean(), plain[:, -1, 0].mean()
    second = [scores[:, -1, 1].mean() for scores in curves.values()]
    page.check(f"the first task is learned: {100 * before:.0f} %", before > 0.9, first_before=before)
    page.check(
        f"so is the second, replay or not: {100 * min(second):.0f} % at least", min(second) > 0.9, second_after=second
    )
    page.check(
        f"and the first is forgotten: it falls by {100 * (before - after):.0f} points, for every seed by more than 10",
        before - after > 0.2 and bool((plain[:, half, 0] - plain[:, -1, 0] > 0.1).all()),
        first_after=after,
    )
    kept = [scores[:, -1, 0].mean() for scores in curves.values()]
    page.check(
        f"replay helps, and more of it more: {', '.join(f'{100 * one:.0f} %' for one in kept)} of the first task's "
        "answers are right at the end",
        bool(np.all(np.diff(kept) > 0.02)),
        first_after_by_share=dict(zip(map(str, SHARES), kept, strict=True)),
    )
    page.check(f"with all of it in the batch both are learned: {100 * kept[-1]:.0f} %", everything[:, -1].mean() > 0.95)
    page.mistake(
        """Forgetting is not a lack of room: this network has room for both tasks, as the last row of the table
        shows, where both are in the batch. It is a lack of reason to keep."""
    )
    page.text(
        "How far this goes: a small head on a frozen model, and made-up sentences whose words appear in training and "
        "in test. It shows the mechanism; how much a whole BERT forgets on real tasks has to be measured on them."
    )
    panels: list[Panel] = []
    times = [EVERY * index for index in range(plain.shape[1])]
    for column, title in enumerate(("the first task", "the second task")):
        panel = Panel("training step", "test accuracy, %" if not panels else "", (0, 2 * STEPS), (0, 100), title=title)
        panel.reference(x=STEPS)
        for share, scores in curves.items():
            line = scores[:, :, column].mean(0)
            panel.line(
                [(float(t), 100 * float(value)) for t, value in zip(times, line, strict=True)], names[share], markers=9
            )
        panels.append(panel)
    page.draw(
        figure(panels, "Test accuracy of two tasks learned one after the other"),
        f"Mean test accuracy over {SEEDS} seeds. Left of the dotted line the first task is learned, right of it the "
        "second.",
    )
