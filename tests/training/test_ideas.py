"""The ideas that make training fast change nothing they should not."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketbert.dropout import Dropout, seed_dropout, set_dropout
from pocketbert.encoder import Encoder
from pocketbert.heads import make_head
from pocketbert.methods.finetune import FinetuneSettings
from pocketbert.training.batches import by_length, epoch_batches
from pocketbert.training.learners import HeadBank, NetworkLearner, TaskTexts, fresh_head
from pocketbert.training.network import Network, read_all
from pocketbert.training.optimizer import FlatAdamW, rate_schedule

PLAIN = FinetuneSettings(
    learning_rate=3e-3, epochs=5, batch_size=16, pooling="pooler", dropout=0.0, weight_decay=0.1, precision="float64",
    group_by_length=False, only_cls=False, vocabulary_slice=False,
)  # fmt: skip


def learner(task, tokenizer, config, settings) -> NetworkLearner:
    encoder = Encoder(config, seed=3)
    set_dropout(encoder, settings.dropout)
    heads = {"toy": fresh_head(settings, config.width, 2)}
    network = Network(encoder, heads, settings.pooling, only_cls=settings.only_cls)
    return NetworkLearner(network, lambda part: part.read, [texts_of(task, tokenizer)], settings, 3e-3)


def texts_of(task, tokenizer) -> TaskTexts:
    train, dev = tokenizer(task.train.texts), tokenizer(task.dev.texts)
    return TaskTexts("toy", 2, train, task.train.labels, dev, task.dev.labels)


def run(made: NetworkLearner, epochs: int = 5):
    """(loss of every step, dev logits after every epoch, whole weights at the end): 50 steps of 16."""
    losses = []
    step = made.step
    made.step = lambda rows, rate, of: losses.append(step(rows, rate, of)) or losses[-1]
    dev = []
    for epoch in range(epochs):
        made.epoch(epoch, lambda done: None)
        dev.append(made.dev_logits())
    return losses, dev, made.snapshot(0)


@pytest.mark.parametrize("pooling", ["pooler", "cls"])
@pytest.mark.parametrize(
    "trick", [{"only_cls": True}, {"vocabulary_slice": True}, {"only_cls": True, "vocabulary_slice": True}], ids=str
)
def test_cls_alone_and_the_slice_give_the_plain_losses_and_weights(task, tokenizer, config, trick, pooling):
    plain_losses, plain_dev, plain = run(learner(task, tokenizer, config, replace(PLAIN, pooling=pooling)))
    losses, dev, weights = run(
        learner(task, tokenizer, config, replace(PLAIN, pooling=pooling, **dict.fromkeys(trick, True)))
    )
    assert len(losses) == 50
    np.testing.assert_allclose(losses, plain_losses, rtol=0, atol=1e-9)
    np.testing.assert_allclose(dev, plain_dev, rtol=0, atol=1e-9)
    assert set(weights) == set(plain)
    for name, weight in weights.items():
        torch.testing.assert_close(weight, plain[name], rtol=0, atol=1e-9, msg=name)


def test_rows_that_no_text_uses_only_decay_and_the_slice_is_small(task, tokenizer, config):
    made = learner(task, tokenizer, config, replace(PLAIN, vocabulary_slice=True))
    assert made.network.encoder.embeddings.word.num_embeddings < config.vocabulary - 30
    before = Encoder(config, seed=3).double().embeddings.word.weight.detach()
    _, _, weights = run(made, epochs=1)
    unused = weights["encoder.embeddings.word.weight"][-40:]
    torch.testing.assert_close(unused, before[-40:] * made.optimizer.decay, rtol=0, atol=1e-15)
    assert made.optimizer.decay < 1


def test_dev_words_that_training_never_saw_have_the_current_decay_at_every_evaluation(task, tokenizer, config):
    """Dev rows are in the slice, so their decay is AdamW's own; losing it would change the dev logits."""
    trained = set(np.unique(tokenizer(task.train.texts).ids))
    new = next(token for row, token in enumerate(tokenizer.tokens) if row not in trained and token.isalpha())
    dev = replace(task.dev, texts=[f"{text} {new} {new}" for text in task.dev.texts])
    task = replace(task, splits={**task.splits, "dev": dev})
    only_dev = set(np.unique(tokenizer(task.dev.texts).ids)) - trained
    assert only_dev, "dev has a word that training has not"
    slow = replace(PLAIN, weight_decay=0.9)  # enough to be seen
    made = learner(task, tokenizer, config, replace(slow, vocabulary_slice=True))
    assert trained | only_dev <= set(made.slice.rows.tolist())
    _, plain_dev, _ = run(learner(task, tokenizer, config, slow))
    _, dev_logits, _ = run(made)
    np.testing.assert_allclose(dev_logits, plain_dev, rtol=0, atol=1e-9)
    stale = learner(task, tokenizer, config, replace(slow, weight_decay=0.0, vocabulary_slice=True))
    assert np.abs(np.array(run(stale)[1]) - np.array(plain_dev)).max() > 1e-3, "the decay is large enough to matter"


@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
def test_a_batch_has_the_same_logits_whatever_shares_it(task, tokenizer, config, pooling):
    heads = {"toy": make_head("linear", config.width, 2).double()}
    network = Network(Encoder(config, seed=1).double(), heads, pooling).eval()
    encoded = tokenizer(task.dev.texts)
    one, many = (read_all(lambda batch: network(batch, "toy"), encoded, batch_size=size) for size in (1, 32))
    np.testing.assert_allclose(one, many, rtol=0, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=400),
    size=st.integers(1, 40),
    like=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_row_is_in_exactly_one_batch(lengths, size, like, seed):
    lengths = np.array(lengths)
    batches = epoch_batches(lengths, size, np.random.default_rng(seed), group_by_length=like)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    assert max(len(batch) for batch in batches) <= size
    again = epoch_batches(lengths, size, np.random.default_rng(seed), group_by_length=like)
    assert all((a == b).all() for a, b in zip(batches, again, strict=True))
    assert sorted(np.concatenate(by_length(lengths, size))) == list(range(len(lengths)))


def test_batches_of_like_length_have_almost_no_padding():
    lengths = np.random.default_rng(0).integers(5, 60, 5_000)

    def padding(like):
        batches = epoch_batches(lengths, 32, np.random.default_rng(0), group_by_length=like)
        return 1 - lengths.sum() / sum(len(batch) * lengths[batch].max() for batch in batches)

    assert padding(True) < 0.03
    assert padding(False) > 0.3


@pytest.mark.parametrize("clip", [0.0, 0.05, 1.0])
def test_the_flat_optimizer_is_torchs_adamw(clip):
    torch.manual_seed(0)
    one = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.LayerNorm(7), torch.nn.Linear(7, 2)).double()
    two = copy.deepcopy(one)
    flat = FlatAdamW(one.named_parameters(), weight_decay=0.1, clip=clip)
    matrices = [p for p in two.parameters() if p.ndim > 1]
    vectors = [p for p in two.parameters() if p.ndim == 1]
    theirs = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}])
    rate = rate_schedule(0.01, 30, warmup=0.1, schedule="linear")
    for step in range(30):
        x = torch.randn(4, 5, dtype=torch.float64)
        flat.zero_grad()
        one(x).pow(2).sum().backward()
        flat.step(rate(step))
        theirs.zero_grad()
        two(x).pow(2).sum().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(two.parameters(), clip)
        for group in theirs.param_groups:
            group["lr"] = rate(step)
        theirs.step()
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_the_rate_rises_then_falls_to_zero_or_stays():
    rate = rate_schedule(1.0, 100, warmup=0.1, schedule="linear")
    values = [rate(step) for step in range(100)]
    assert values[9] == max(values) == 1.0
    assert values[0] == pytest.approx(0.1)
    assert values[-1] == pytest.approx(1 / 90)
    assert rate_schedule(1.0, 100, warmup=0.0, schedule="constant")(99) == 1.0


@pytest.mark.parametrize("head", ["linear", "two-layer"])
@pytest.mark.parametrize("weights", [False, True])
def test_heads_trained_together_are_the_heads_trained_alone(head, weights):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(90, 12)), random.integers(0, 3, 90)
    dev = random.normal(size=(40, 12))
    made = FinetuneSettings(
        learning_rate=(1e-2, 1e-3),
        epochs=3,
        batch_size=16,
        head=head,
        dropout=0.2,
        precision="float64",
        class_weights=weights,
    )
    dev = dev, random.integers(0, 3, 40)
    together = HeadBank("toy", (x, y), dev, 3, made, seeds=(4, 7))
    for epoch in range(3):
        together.epoch(epoch, lambda done: None)
    for i, candidate in enumerate(together.candidates):
        alone = HeadBank(
            "toy", (x, y), dev, 3, replace(made, learning_rate=candidate.rate, seed=candidate.seed), (candidate.seed,)
        )
        for epoch in range(3):
            alone.epoch(epoch, lambda done: None)
        for name, weight in alone.snapshot(0).items():
            torch.testing.assert_close(together.snapshot(i)[name], weight, rtol=0, atol=1e-12)
        np.testing.assert_allclose(together.dev_logits()[i], alone.dev_logits()[0], rtol=0, atol=1e-12)


def test_a_bank_of_heads_is_what_the_network_learner_gives_with_a_frozen_encoder(task, tokenizer, config):
    made = replace(PLAIN, epochs=2)
    heads = {"toy": fresh_head(made, config.width, 2).double()}
    network = Network(Encoder(config, seed=3).double(), heads, "pooler").eval()
    set_dropout(network, 0.0)  # features that are computed once have none
    texts = texts_of(task, tokenizer)
    x, x_dev = read_all(network.pool, texts.train), read_all(network.pool, texts.dev)
    bank = HeadBank("toy", (x, task.train.labels), (x_dev, task.dev.labels), 2, made, (0,))
    slow = NetworkLearner(network, lambda part: part.of == "heads", [texts], made, made.rates[0])
    for epoch in range(2):
        bank.epoch(epoch, lambda done: None)
        slow.epoch(epoch, lambda done: None)
    for name, weight in slow.snapshot(0).items():
        torch.testing.assert_close(bank.snapshot(0)[name], weight, rtol=0, atol=1e-9)


def test_dropout_drops_its_share_keeps_the_mean_and_repeats_with_its_seed():
    layer = Dropout(0.1).train()
    seed_dropout(layer, 3)
    x = torch.ones(1_000_003)
    one = layer(x)
    share = (one == 0).float().mean().item()
    assert abs(share - 0.1) < 5 * (0.09 / 1e6) ** 0.5
    assert one.mean().item() == pytest.approx(1.0, abs=2e-3)
    assert not torch.equal(layer(x), one)
    seed_dropout(layer, 3)
    assert torch.equal(layer(x), one)
    assert layer.eval()(x) is x
    neighbours = (one[:-1] == 0) & (one[1:] == 0)
    assert abs(neighbours.float().mean().item() - 0.01) < 6 * (0.01 / 1e6) ** 0.5, "neighbours drop independently"


def test_dropout_lets_gradients_through_where_it_kept():
    layer = Dropout(0.5).train()
    x = torch.ones(1_000, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
