"""Lesson: the loss of a sentence with two masked words, live."""

import numpy as np
import torch

from pocketbert.heads import Pretraining
from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson
from pocketbert.lessons.material import MODEL
from pocketbert.loading import load_pretraining, load_tokenizer
from pocketbert.pretraining.examples import PretrainingBatch
from pocketbert.pretraining.objective import read_batch
from pocketbert.tokenizer import Tokenizer

SENTENCE = "this is one of the best films i have ever seen ."
HIDDEN = ("films", "seen")


def masked(tokenizer: Tokenizer) -> tuple[torch.Tensor, list[int], list[int]]:
    """The sentence's ids with two of them masked, their places, and what stood there."""
    ids = tokenizer([SENTENCE]).tensors()["input_ids"][0]
    tokens = tokenizer.tokens
    places = [index for index, one in enumerate(ids.tolist()) if tokens[one] in HIDDEN]
    truth = ids[places].tolist()
    ids[places] = tokenizer.ids["[MASK]"]
    return ids, places, truth


@torch.no_grad()
def probabilities(model: Pretraining, ids: torch.Tensor) -> np.ndarray:
    """(T, V): for every place, the probability of every word. Softmax written out, in 64 bits."""
    logits = model(ids[None]).words[0].double().numpy()
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def loss_in_pretraining(model: Pretraining, ids: torch.Tensor, places: list[int], truth: list[int]) -> float:
    """What `pocketbert pretrain` would have for this sentence, before it divides by the number of masked words."""
    batch = PretrainingBatch(
        input_ids=ids[None],
        attention_mask=torch.ones_like(ids)[None],
        token_type_ids=torch.zeros_like(ids)[None],
        places=torch.tensor(places),
        words=torch.tensor(truth),
        next_sentence_labels=None,
        computed=len(places),
        masked_everywhere=len(places),
        rows_everywhere=1,
        tokens_everywhere=len(ids),
    )
    with torch.no_grad():
        return float(read_batch(model, batch).word_loss)


@lesson(
    "mlm",
    "Masked words: the loss of two gaps is the sum of two",
    """The loss of a sentence with two masked words y₁ and y₂ is −(log p(y₁|x̂) + log p(y₂|x̂)), where x̂ is the
    sentence with both masked: neither gap sees the other's word, and the places that are not masked add
    nothing.""",
)
def teach(page: LessonPage) -> None:
    model, tokenizer = load_pretraining(MODEL, quiet=True), load_tokenizer(MODEL)
    ids, places, truth = masked(tokenizer)
    shown = SENTENCE.replace(HIDDEN[0], "[MASK]").replace(HIDDEN[1], "[MASK]")
    page.section("The sentence")
    page.text(
        f"x̂ = “{shown}”. What stood there is y₁ = {HIDDEN[0]} and y₂ = {HIDDEN[1]}. {MODEL} gives for each gap a "
        f"probability for each of its {len(tokenizer):,} word pieces. p(y₁|x̂) is the one that it gives y₁ at the "
        "first gap when it reads x̂:"
    )
    shares = probabilities(model, ids)
    tokens = tokenizer.tokens
    tops = [[(tokens[word], float(shares[place, word])) for word in np.argsort(-shares[place])[:5]] for place in places]
    page.table(
        ["gap", "first five", "p of the true word"],
        [
            [
                number,
                ", ".join(f"{word} {100 * share:.1f} %" for word, share in top),
                f"{100 * shares[place, word]:.1f} %",
            ]
            for number, (top, place, word) in enumerate(zip(tops, places, truth, strict=True), 1)
        ],
    )
    page.section("The loss")
    page.text(
        "Training makes the true words more probable. The two gaps are taken as independent given x̂, so their "
        "probabilities multiply; the loss is minus the logarithm of the product, and the logarithm of a product is a "
        "sum:"
    )
    page.formula("loss = −log( p(y₁|x̂) · p(y₂|x̂) ) = −( log p(y₁|x̂) + log p(y₂|x̂) )")
    each = [-float(np.log(shares[place, word])) for place, word in zip(places, truth, strict=True)]
    by_hand, by_trainer = sum(each), loss_in_pretraining(model, ids, places, truth)
    page.check(
        f"by hand: {each[0]:.4f} + {each[1]:.4f} = {by_hand:.4f}; the loss that `pocketbert pretrain` computes is the "
        "same, to 1e-3",
        abs(by_hand - by_trainer) < 1e-3,
        loss=by_hand,
        loss_in_pretraining=by_trainer,
        losses=each,
    )
    blind = 2 * float(np.log(len(tokenizer)))
    page.check(
        f"guessing all words alike would have 2·log {len(tokenizer):,} = {blind:.1f}",
        by_hand < blind,
        loss_of_guessing=blind,
    )
    page.text(
        f"Trainers divide by the number of masked words, so that batches can be compared: {by_hand:.4f} / 2 = "
        f"{by_hand / 2:.4f} here. Both are called “the loss”; say which."
    )

    page.section("What is not in it")
    page.text(
        "Only the gaps count: the gradient of the loss with respect to what the model says at a place that is not "
        "masked is 0."
    )
    logits = model(ids[None]).words
    logits.retain_grad()
    torch.nn.functional.cross_entropy(logits[0, places], torch.tensor(truth), reduction="sum").backward()
    assert logits.grad is not None
    norms = logits.grad[0].norm(dim=1)
    others = [index for index in range(len(ids)) if index not in places]
    page.check(
        f"{len(others)} places have the gradient 0, the two gaps {norms[places[0]]:.2f} and {norms[places[1]]:.2f}",
        bool((norms[others] == 0).all()) and bool((norms[places] > 0).all()),
    )
    page.text(
        "And the two gaps do not see each other's word. By the chain rule the pair has p(y₁|x̂)·p(y₂|x̂, y₁): for the "
        "second factor y₁ would have to be put in first. That is another number:"
    )
    with_first = ids.clone()
    with_first[places[0]] = truth[0]
    chained = each[0] - float(np.log(probabilities(model, with_first)[places[1], truth[1]]))
    page.check(
        f"with y₁ put in, −log p(y₁|x̂) − log p(y₂|x̂, y₁) = {chained:.3f}, not {by_hand:.3f}",
        abs(chained - by_hand) > 1e-3,
        loss_by_chain_rule=chained,
    )
    page.mistake(
        """The condition in both terms is the sentence with *both* gaps. It is not the true sentence, and not the
        sentence with the other gap filled; and the terms are added, not multiplied: it is the probabilities
        that multiply."""
    )
    panels = []
    for number, top in enumerate(tops):
        names = {float(4 - index): word for index, (word, _) in enumerate(top)}
        panel = Panel(
            "probability, %",
            "word",
            (0, 100),
            (-0.6, 4.6),
            title=f"gap {number + 1} (true: {HIDDEN[number]})",
            y_names=names,
            wide=320,
            left=100,
        )
        for index, (_, share) in enumerate(top):
            panel.box((0, 4 - index - 0.3), (100 * share, 4 - index + 0.3), "f0")
            panel.write((100 * share, 4 - index), f"{100 * share:.1f}", anchor="start", shift=(5, 4))
        panels.append(panel)
    page.draw(
        figure(panels, "The five most probable words for two gaps"),
        f"The five most probable words for each gap, by {MODEL}.",
    )
