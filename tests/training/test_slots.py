"""The places in an encoder where a method puts its own modules, and how they are told from BERT's own weights."""

import pytest
import torch
from torch import nn

from pocketbert.checkpoints import name_map, read_encoder, save_model
from pocketbert.encoder import Encoder, is_added
from pocketbert.heads import make_head
from pocketbert.start import weights_fingerprint
from pocketbert.training.network import Network


class Bottleneck(nn.Module):
    """Houlsby et al. 2019: down, up, added to the sublayer's output before residual and norm."""

    def __init__(self, width: int, *, around_norm: bool) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, 4), nn.Linear(4, width)
        self.around_norm = around_norm

    def forward(self, output, residual, norm):
        if self.around_norm:  # Pfeiffer et al. 2021: works on the normalised sum
            normed = norm(residual + output)
            return norm(normed + self.up(torch.relu(self.down(normed))) + residual)
        return norm(residual + output + self.up(torch.relu(self.down(output))))


class LowRank(nn.Module):
    """Hu et al. 2021: W + BA in place of W, for query, key and value at once."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(2, width)), nn.Parameter(torch.randn(3 * width, 2))

    def forward(self, weight, bias):
        return weight + self.b @ self.a, bias


def batch(config, rows=5, length=9):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, config.vocabulary, (rows, length), generator=generator)
    mask = (torch.arange(length) < torch.tensor([[length], [length], [4], [6], [2]])).long()
    return {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}


@pytest.mark.parametrize("only_cls", [False, True])
def test_a_bottleneck_that_adds_nothing_changes_nothing(config, only_cls):
    plain, with_adapters = (Encoder(config, seed=2).double().eval() for _ in range(2))
    for layer in with_adapters.layers:
        for slot in ("after_attention", "after_feed_forward"):
            adapter = Bottleneck(config.width, around_norm=False).double()
            nn.init.zeros_(adapter.up.weight)
            nn.init.zeros_(adapter.up.bias)
            setattr(layer, slot, adapter)
    one, two = (it(**batch(config), only_cls=only_cls) for it in (plain, with_adapters))
    torch.testing.assert_close(one.pooler_output, two.pooler_output, rtol=0, atol=1e-12)


@pytest.mark.parametrize("around_norm", [False, True])
def test_what_is_put_into_a_slot_is_computed_and_gets_a_gradient(config, around_norm):
    torch.manual_seed(0)
    encoder = Encoder(config, seed=2).train()
    before = Encoder(config, seed=2).eval()(**batch(config)).pooler_output
    for layer in encoder.layers:
        layer.after_feed_forward = Bottleneck(config.width, around_norm=around_norm)
    after = encoder.eval()(**batch(config)).pooler_output
    assert not torch.allclose(before, after, atol=1e-3)
    after.sum().backward()
    added = {name: p for name, p in encoder.named_parameters() if is_added(name)}
    assert len(added) == 4 * config.layers
    assert all(parameter.grad is not None for parameter in added.values())


@pytest.mark.parametrize("only_cls", [False, True])
def test_low_rank_changes_of_the_projections_are_the_merged_weights_also_for_cls_alone(config, only_cls):
    torch.manual_seed(0)
    adapted, merged = (Encoder(config, seed=2).double().eval() for _ in range(2))
    for layer, other in zip(adapted.layers, merged.layers, strict=True):
        layer.attention.projection = LowRank(config.width).double()
        with torch.no_grad():
            weight = other.attention.query_key_value.weight
            weight += layer.attention.projection.b @ layer.attention.projection.a
    one, two = (it(**batch(config), only_cls=only_cls) for it in (adapted, merged))
    torch.testing.assert_close(one.pooler_output, two.pooler_output, rtol=0, atol=1e-10)
    plain = Encoder(config, seed=2).double().eval()(**batch(config), only_cls=only_cls)
    assert not torch.allclose(one.pooler_output, plain.pooler_output, atol=1e-6)


def test_added_parameters_are_no_part_of_bert_in_names_fingerprint_and_files(config, tokenizer, tmp_path):
    plain, extended = Encoder(config, seed=2), Encoder(config, seed=2)
    extended.layers[0].after_attention = Bottleneck(config.width, around_norm=False)
    extended.layers[1].attention.projection = LowRank(config.width)
    assert weights_fingerprint(extended) == weights_fingerprint(plain)
    assert name_map(extended) == name_map(plain)
    assert dict(extended.base_parameters()).keys() == dict(plain.named_parameters()).keys()
    save_model(extended, tmp_path / "model", tokenizer)
    again, _ = read_encoder(tmp_path / "model")
    assert weights_fingerprint(again) == weights_fingerprint(plain)
    network = Network(extended, {"task": make_head("linear", config.width, 2)}, "pooler")
    kinds = {part.of for part in network.parts().values()}
    assert kinds == {"embeddings", "layers", "pooler", "heads", "added"}
