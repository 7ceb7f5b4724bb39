"""What an encoder promises by itself: gradients where they belong, none from padding, none from ambient randomness."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketbert.catalog import count_parameters
from pocketbert.config import ACTIVATIONS, SHAPES, Config
from pocketbert.encoder import ACTIVATIONS as FUNCTIONS
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.heads import HEADS, BiLSTMHead, Pretraining, make_head

SMALL = Config(vocabulary=50, width=24, layers=2, heads=3, inner=40, positions=64)


def ids(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, SMALL.vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("tiny", 4_385_920), ("mini", 11_170_560), ("base", 109_482_240)],
)
def test_the_published_shapes_have_the_published_counts(name, expected):
    counts = count_parameters(SHAPES[name])
    assert counts["parameters"] == expected
    assert counts["embeddings"] + counts["encoder"] + counts["pooler"] == expected


def test_base_has_the_counts_the_reports_give():
    counts = count_parameters(SHAPES["base"], head="two-layer", labels=2)
    assert counts["parameters"] == 110_074_370
    assert counts["head_size"] == 64
    assert counts["qkv_weights_per_layer"] == 1_769_472


def test_counting_a_shape_equals_counting_the_numbers_of_a_real_one():
    assert count_parameters(SMALL)["parameters"] == sum(p.numel() for p in Encoder(SMALL).parameters())


def test_every_activation_a_config_may_name_is_there():
    assert set(FUNCTIONS) == set(ACTIVATIONS)


def test_every_trainable_parameter_gets_a_gradient():
    model = Pretraining(Encoder(SMALL)).train()
    types = torch.zeros(3, 9, dtype=torch.long)
    types[:, 4:] = 1
    logits = model(ids(3, 9), torch.ones(3, 9, dtype=torch.long), types)
    (logits.words.logsumexp(-1).sum() + logits.next_sentence.logsumexp(-1).sum()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_a_frozen_parameter_is_byte_identical_after_a_step():
    encoder = Encoder(SMALL).train()
    frozen = {name for name, _ in encoder.named_parameters() if name.startswith(("embeddings", "layers.0"))}
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_(name not in frozen)
    before = {name: parameter.detach().clone() for name, parameter in encoder.named_parameters()}
    trainable = [p for p in encoder.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=0.1, weight_decay=0.1)
    encoder(ids(4, 8)).pooler_output.sum().backward()
    optimizer.step()
    for name, parameter in encoder.named_parameters():
        same = parameter.detach().numpy().tobytes() == before[name].numpy().tobytes()
        assert same == (name in frozen), name


def test_the_padding_row_gets_no_gradient():
    encoder = Encoder(SMALL)
    batch = ids(2, 6)
    batch[1, 3:] = 0
    encoder(batch, (batch != 0).long()).last_hidden_state.sum().backward()
    assert encoder.embeddings.word.weight.grad[0].abs().sum() == 0


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(2, 20), more=st.integers(1, 30), seed=st.integers(0, 1_000), head=st.sampled_from(sorted(HEADS))
)
def test_more_padding_never_changes_a_result(length, more, seed, head):
    encoder = Encoder(SMALL, seed=seed).eval()
    short = ids(3, length, seed)
    mask = torch.ones_like(short)
    mask[1, length // 2 + 1 :] = 0
    longer = torch.nn.functional.pad(short, (0, more), value=seed % SMALL.vocabulary)  # whatever stands in the padding
    longer_mask = torch.nn.functional.pad(mask, (0, more))
    with torch.no_grad():
        a, b = encoder(short, mask), encoder(longer, longer_mask)
        on = make_head(head, SMALL.width, 3, seed=seed).eval()
        if isinstance(on, BiLSTMHead):
            said_a, said_b = on(a.last_hidden_state, mask), on(b.last_hidden_state, longer_mask)
        else:
            said_a, said_b = on(a.pooler_output), on(b.pooler_output)
    seen = mask.bool()
    torch.testing.assert_close(a.last_hidden_state[seen], b.last_hidden_state[:, :length][seen], rtol=0, atol=1e-5)
    torch.testing.assert_close(a.pooler_output, b.pooler_output, rtol=0, atol=1e-5)
    torch.testing.assert_close(said_a, said_b, rtol=0, atol=1e-5)


def test_in_bfloat16_training_is_the_same_and_padding_stays_hidden():
    quiet = dataclasses.replace(SMALL, dropout=0.0, attention_dropout=0.0)
    encoder, one, other = Encoder(quiet), ids(3, 12), ids(3, 12, seed=1)
    mask = torch.ones_like(one)
    mask[0, 7:] = 0
    mask[1] = 0  # nothing to see: nonsense, but no NaN that would spoil the other rows' gradients
    other = torch.where(mask.bool(), one, other)
    with torch.no_grad():
        exact = encoder.eval()(one, mask).last_hidden_state
    with torch.autocast("cpu", torch.bfloat16):
        states = encoder.train()(one, mask).last_hidden_state
        changed = encoder(other, mask).last_hidden_state
    assert torch.equal(states[0, :7], changed[0, :7])
    assert torch.equal(states[2], changed[2])
    assert (states - exact)[[0, 2]].abs().max() < 0.05
    states.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in encoder.parameters())


def test_the_same_seed_gives_the_same_weights_and_ambient_randomness_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two, other = Encoder(SMALL, seed=1), Encoder(SMALL, seed=1), Encoder(SMALL, seed=2)
    make_head("bilstm", 24, 2, seed=3)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.pooler.weight, other.pooler.weight)


def test_dropout_acts_in_training_and_not_in_evaluation():
    encoder = Encoder(SMALL)
    batch = ids(2, 7)
    a, b = (encoder.train()(batch).pooler_output for _ in range(2))
    assert not torch.equal(a, b)
    a, b = (encoder.eval()(batch).pooler_output for _ in range(2))
    assert torch.equal(a, b)


def test_attention_dropout_also_acts_where_maps_are_asked_for():
    encoder = Encoder(Config(vocabulary=50, width=24, layers=1, heads=3, inner=40, dropout=0.0, attention_dropout=0.5))
    batch = ids(2, 7)
    assert (encoder.train()(batch, attentions=True).attentions[0] == 0).any()
    rows = encoder.eval()(batch, attentions=True).attentions[0].sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows))


def test_an_input_longer_than_the_positions_says_what_to_do():
    with pytest.raises(UserError, match="65 tokens.*positions for 64.*max_length=64"):
        Encoder(SMALL)(ids(1, 65))


@pytest.mark.parametrize("name", sorted(HEADS))
def test_every_head_gives_a_logit_a_label_and_a_gradient_for_every_weight(name):
    head = make_head(name, 24, 5, seed=0).train()
    states = torch.randn(3, 6, 24, generator=torch.Generator().manual_seed(0))
    logits = head(states) if name == "bilstm" else head(states[:, 0])
    assert logits.shape == (3, 5)
    logits.logsumexp(-1).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in head.parameters())


def test_an_unknown_head_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match="'lstm' is not known; known are linear, two-layer, bilstm"):
        make_head("lstm", 24, 2)
    with pytest.raises(UserError, match="0 labels"):
        make_head("linear", 24, 0)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"width": 100, "heads": 3}, "hidden_size.*not divisible"),
        ({"layers": 0}, "num_hidden_layers.*outside"),
        ({"layers": 10**9}, "num_hidden_layers.*outside"),
        ({"vocabulary": 2**62}, "vocab_size.*outside"),
        ({"width": 16_384, "inner": 131_072, "layers": 512, "heads": 1}, "parameters"),
        ({"width": 12.0}, "hidden_size.*whole number"),
        ({"heads": True}, "num_attention_heads.*whole number"),
        ({"activation": "mish"}, "hidden_act.*'mish' is not known"),
        ({"dropout": 1.5}, "hidden_dropout_prob.*outside"),
        ({"norm_epsilon": float("nan")}, "layer_norm_eps.*nan is outside 0 to 1"),
        ({"padding_id": 40_000}, "pad_token_id.*not a row"),
    ],
)
def test_a_config_with_a_wrong_number_is_refused_when_made(settings, says):
    with pytest.raises(UserError, match=says):
        Config(**settings)
