"""Each lesson with its mechanism broken on purpose: it notices, and the command ends with exit code 1."""

import json
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pocketbert import encoder, lessons
from pocketbert.cli import main
from pocketbert.config import SHAPES, Config
from pocketbert.lessons import decoding as decoding_lesson
from pocketbert.lessons import forgetting, linear_collapse, list_lessons, mlm, positions, softmax, vanishing, xor
from pocketbert.pretraining.objective import Told, read_batch
from pocketbert.translation import beam_search


def norm_without_mean(monkeypatch):
    def without_mean(x, shape, weight=None, bias=None, eps=1e-5):
        z = x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
        return (z if weight is None else z * weight) + (0 if bias is None else bias)

    monkeypatch.setattr(F, "layer_norm", without_mean)


def norm_without_beta(monkeypatch):
    plain = F.layer_norm
    monkeypatch.setattr(
        F, "layer_norm", lambda x, shape, weight=None, bias=None, eps=1e-5: plain(x, shape, weight, None, eps)
    )


def softmax_without_shift(monkeypatch):
    monkeypatch.setattr(
        softmax, "softmax", lambda scores, temperature=1.0: softmax.softmax_without_shift(scores / temperature)
    )


def softmax_without_temperature(monkeypatch):
    plain = softmax.softmax
    monkeypatch.setattr(softmax, "softmax", lambda scores, temperature=1.0: plain(scores))


def attention_without_scaling(monkeypatch):
    def unscaled(query, key, value, attn_mask=None):
        scores = query @ key.transpose(-2, -1)
        return (scores if attn_mask is None else scores + attn_mask).softmax(-1) @ value

    monkeypatch.setattr(F, "scaled_dot_product_attention", unscaled)


def maps_without_scaling(monkeypatch):
    plain = encoder.attend_by_formula

    def unscaled(query, key, value, mask, dropout):
        return plain(query * query.shape[-1] ** 0.5, key, value, mask, dropout)

    monkeypatch.setattr(encoder, "attend_by_formula", unscaled)


def heads_that_share_a_map(monkeypatch):
    def shared(query, key, value, attn_mask=None):
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        return scores.softmax(-1).mean(dim=1, keepdim=True) @ value

    monkeypatch.setattr(F, "scaled_dot_product_attention", shared)


def cosines_of_another_frequency(monkeypatch):
    def unpaired(places, width):
        angles = places[:, None] * 10000.0 ** (-np.arange(width) / width)
        return np.where(np.arange(width) % 2, np.cos(angles), np.sin(angles))

    monkeypatch.setattr(positions, "sinusoidal", unpaired)


def attention_that_knows_the_order(monkeypatch):
    plain = F.scaled_dot_product_attention

    def biased(query, key, value, attn_mask=None):
        places = torch.arange(key.shape[-2], dtype=query.dtype)
        return plain(query, key, value, attn_mask=-(places[:, None] - places).abs())

    monkeypatch.setattr(F, "scaled_dot_product_attention", biased)


def hidden_layer_without_activation(monkeypatch):
    monkeypatch.setattr(xor, "activation", lambda x: x)


def programming_that_finds_any_line(monkeypatch):
    monkeypatch.setattr(xor, "separable", lambda labels: True)


def collapse_without_biases(monkeypatch):
    plain = linear_collapse.collapse
    monkeypatch.setattr(linear_collapse, "collapse", lambda layers: (plain(layers)[0], 0.0))


def something_between(monkeypatch):
    monkeypatch.setitem(linear_collapse.BETWEEN, "nothing", torch.tanh)


def slope_of_a_half(monkeypatch):
    monkeypatch.setattr(vanishing, "relu", lambda x: 0.5 * F.relu(x) + 0.3 * x)


def weights_too_small(monkeypatch):
    monkeypatch.setattr(vanishing, "weight_variance", lambda kind, activation: 1 / 3)


def beam_of_one(monkeypatch):
    monkeypatch.setattr(
        decoding_lesson, "beam_search", lambda *given, **told: beam_search(*given, **{**told, "width": 1, "best": 1})
    )


def beams_whose_states_stay(monkeypatch):
    def only_repeated(state, rows):
        old = state[0] if isinstance(state, tuple) else state
        return state if len(old) == len(rows) else plain(state, rows)

    from pocketbert.translation.decoding import reorder_rows as plain

    monkeypatch.setattr(decoding_lesson, "beam_search", partial(beam_search, reorder=only_repeated))


def layer_with_one_bias_more(monkeypatch):
    plain = encoder.Layer.__init__

    def made(self, config):
        plain(self, config)
        self.more = nn.Linear(config.width, 1, bias=False)

    monkeypatch.setattr(encoder.Layer, "__init__", made)


def loss_that_is_a_mean(monkeypatch):
    def averaged(model, batch):
        told = read_batch(model, batch)
        return Told(told.word_loss / len(batch.places))

    monkeypatch.setattr(mlm, "read_batch", averaged)


def nothing_replayed(monkeypatch):
    monkeypatch.setattr(forgetting, "replayed", lambda first, share: first[:, :0])


def nothing_learnt(monkeypatch):
    monkeypatch.setattr(forgetting.Networks, "learn", lambda self, x, y: None)


def large_of_width_768(monkeypatch):
    monkeypatch.setitem(SHAPES, "large", Config(width=768, layers=24, heads=16, inner=3072))


BREAKS = [
    ("layernorm", norm_without_mean, "Σ zᵢ = 0"),
    ("layernorm", norm_without_beta, "the norm is √d·√(γ² + β²)"),
    ("softmax", softmax_without_shift, "adding −1000"),
    ("softmax", softmax_without_temperature, "the entropy grows"),
    ("attention", attention_without_scaling, "the encoder's result"),
    ("attention", maps_without_scaling, "attention maps"),
    ("heads", heads_that_share_a_map, "two heads, set by hand"),
    ("positions", cosines_of_another_frequency, "one matrix R(k)"),
    ("positions", attention_that_knows_the_order, "positions set to zero"),
    ("xor", hidden_layer_without_activation, "hidden units (tanh)"),
    ("xor", programming_that_finds_any_line, "none for XOR"),
    ("linear-collapse", collapse_without_biases, "one matrix and one bias"),
    ("linear-collapse", something_between, "nothing between"),
    ("vanishing", slope_of_a_half, "ReLU's slope"),
    ("vanishing", weights_too_small, "ReLU, variance-keeping"),
    ("decoding", beam_of_one, "begins with B"),
    ("decoding", beams_whose_states_stay, "exhaustive search"),
    ("parameters", layer_with_one_bias_more, "BERT-base"),
    ("mlm", loss_that_is_a_mean, "`pocketbert pretrain` computes"),
    ("forgetting", nothing_replayed, "replay helps"),
    ("forgetting", nothing_learnt, "the first task is learned"),
    ("bert-facts", large_of_width_768, "BERT-large"),
]


def test_every_lesson_is_broken_here():
    assert {name for name, _, _ in BREAKS} == set(list_lessons())


@pytest.mark.parametrize(("name", "break_it", "claim"), BREAKS, ids=lambda one: getattr(one, "__name__", None))
def test_a_lesson_notices_that_its_mechanism_is_broken(name, break_it, claim, monkeypatch, capsys):
    break_it(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["pocketbert", "lesson", name, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    document = json.loads(capsys.readouterr().out)
    assert document["holds"] is False
    failed = [check["claim"] for check in document["checks"] if not check["holds"]]
    assert any(claim in one for one in failed), failed


def test_a_lesson_that_is_not_broken_ends_with_0(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pocketbert", "lesson", "linear-collapse", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["holds"] is True
    assert lessons.run_lesson("linear-collapse").holds
