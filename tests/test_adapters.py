"""Adapters, AdapterFusion and LoRA: equal to the libraries that published them, and nothing at all when fresh.

The fixtures hold what `adapters` 1.3.0 and `peft` computed; tests/fixtures/adapters/make.py made them.
"""

import pytest
import torch
from conftest import REPOSITORY
from safetensors.torch import load_file

from pocketbert.adapters import Bottleneck, Fusion, draw_fusion, fuse, fusions, put_bottlenecks, put_low_rank
from pocketbert.checkpoints import name_map
from pocketbert.config import Config
from pocketbert.encoder import Encoder, is_added
from pocketbert.errors import UserError
from pocketbert.heads import make_head
from pocketbert.methods import DataSize, get_method
from pocketbert.start import Start, weights_fingerprint
from pocketbert.training.fit import make_network
from pocketbert.training.network import Network

FIXTURES = REPOSITORY / "tests" / "fixtures" / "adapters"
SIZES = ("small", "larger")
BOTTLENECKS = ("houlsby", "pfeiffer")


def read(size):
    """(encoder with the fixture's weights, its inputs, the random factor of the loss, all tensors)."""
    tensors = load_file(FIXTURES / f"{size}.safetensors")
    bert = {name.removeprefix("bert/"): tensor for name, tensor in tensors.items() if name.startswith("bert/")}
    layers = sum(name.endswith("intermediate.dense.bias") for name in bert)
    inner, width = bert["encoder.layer.0.intermediate.dense.weight"].shape
    shape = {"layers": layers, "heads": {24: 3, 32: 4}[width], "inner": inner, "positions": 16}
    encoder = Encoder(Config(vocabulary=60, width=width, **shape), seed=0).eval()
    with torch.no_grad():
        parameters = dict(encoder.named_parameters())
        for ours, theirs in name_map(encoder).items():
            parameters[ours].copy_(torch.cat([bert[name] for name in theirs]))
    given = {name.removeprefix("input/"): tensor for name, tensor in tensors.items() if name.startswith("input/")}
    return encoder, given, given.pop("factor"), tensors


def reduction(tensors):
    width, units = tensors["pfeiffer/weight/layers.0.after_feed_forward.up.weight"].shape
    return width // units


def put(encoder, kind, tensors, precision=torch.float32):
    """What a method adds to the encoder, with the fixture's weights; its parameters by name."""
    method, config = get_method(kind.removeprefix("fusion of ")), encoder.config
    told = {"rank": 3, "lora_alpha": 6.0} if kind == "lora" else {"reduction": reduction(tensors)}
    method.extend(encoder, method.read(told))
    if kind.startswith("fusion"):
        members = {}
        for name in ("one", "two", "three"):
            method.extend(encoder, method.read({**told, "seed": len(members)}))
            members[name] = encoder.added()
        fuse(encoder, members)
    encoder.to(precision)
    added = {name: parameter for name, parameter in encoder.named_parameters() if is_added(name)}
    with torch.no_grad():
        for name, parameter in added.items():
            parameter.copy_(theirs(tensors, kind, "weight", name, config.width))
    return added


def theirs(tensors, kind, what, name, width):
    if name.endswith("value_change"):  # ours is the difference from the identity
        tensor = tensors[f"{kind}/{what}/{name.replace('value_change', 'value.weight')}"]
        return tensor.double() - torch.eye(width).double() if what == "weight" else tensor
    return tensors[f"{kind}/{what}/{name}"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["lora", *BOTTLENECKS, *(f"fusion of {kind}" for kind in BOTTLENECKS)])
def test_outputs_and_gradients_are_those_of_the_published_libraries(kind, size):
    encoder, given, factor, tensors = read(size)
    added = put(encoder, kind, tensors, torch.float64)  # as theirs was: see the script
    names = {name.removeprefix(f"{kind}/weight/") for name in tensors if name.startswith(f"{kind}/weight/")}
    assert {name.replace("value_change", "value.weight") for name in added} == names, "every weight of theirs is used"
    states = encoder(**given).last_hidden_state * given["attention_mask"][:, :, None]
    torch.testing.assert_close(states.float(), tensors[f"{kind}/output"], rtol=0, atol=1e-5)
    (states * factor).sum().backward()
    for name, parameter in added.items():
        expected = theirs(tensors, kind, "gradient", name, encoder.config.width)
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(parameter.grad.float() / scale, expected / scale, rtol=0, atol=1e-5, msg=name)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("only_cls", [False, True])
def test_low_rank_changes_can_be_merged(size, only_cls):
    encoder, given, _, tensors = read(size)
    put(encoder, "lora", tensors)
    before = encoder(**given, only_cls=only_cls).last_hidden_state
    encoder.merge_projections()
    assert not encoder.added()
    torch.testing.assert_close(encoder(**given, only_cls=only_cls).last_hidden_state, before, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["lora", *BOTTLENECKS])
def test_a_fresh_one_is_its_encoder(name):
    encoder, given, _, _ = read("larger")
    before = encoder(**given).last_hidden_state
    method = get_method(name)
    method.extend(encoder, method.read({} if name == "lora" else {"reduction": 2}))
    assert len(encoder.added()) == len(encoder.layers) * (2 if name == "houlsby" else 1)
    torch.testing.assert_close(encoder(**given).last_hidden_state, before, rtol=0, atol=0 if name == "lora" else 1e-6)


@pytest.mark.parametrize("kind", BOTTLENECKS)
def test_a_fusion_of_one_adapter_is_that_adapter(kind):
    encoder, given, _, tensors = read("larger")
    put(encoder, kind, tensors)
    alone = encoder(**given).last_hidden_state
    fuse(encoder, {"one": encoder.added()})
    draw_fusion(encoder, seed=3)
    assert len(fusions(encoder)) == len(encoder.layers) * (2 if kind == "houlsby" else 1)
    torch.testing.assert_close(encoder(**given).last_hidden_state, alone, rtol=0, atol=1e-5)


def test_fusion_weights_are_a_distribution_over_adapters():
    fusion = Fusion({name: Bottleneck(24, 4, "relu", after_norm=True) for name in ("a", "b", "c")}, 24)
    norm = torch.nn.LayerNorm(24)
    _, weights = fusion.mixed(torch.randn(2, 5, 24), torch.randn(2, 5, 24), norm)
    assert weights.shape == (2, 5, 3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5))
    assert (weights > 0).all()


def test_what_cannot_be_fused_is_refused():
    encoder, _, _, _ = read("small")
    members = {}
    for name, kind, told in (
        ("a", "pfeiffer", {"reduction": 2}),
        ("b", "houlsby", {"reduction": 2}),
        ("c", "lora", {}),
    ):
        get_method(kind).extend(encoder, get_method(kind).read(told))
        members[name] = encoder.added()
    with pytest.raises(UserError, match="'b' is not in the same places of the encoder as 'a'"):
        fuse(encoder, {"a": members["a"], "b": members["b"]})
    with pytest.raises(UserError, match="'c' is no bottleneck adapter"):
        fuse(encoder, {"c": members["c"]})


# -- counted by hand ---------------------------------------------------------------------------------------------------

SHAPES = {"tiny": (2, 128), "mini": (4, 256), "base": (12, 768)}  # layers, width


def by_hand(name, layers, width):
    """What is added: weights and biases down and up, per place; of LoRA, A and B for query and value."""
    units = {128: 32, 256: 32, 768: 48}[width]
    bottleneck = width * units + units + units * width + width
    added = {"pfeiffer": bottleneck, "houlsby": 2 * bottleneck, "lora": 4 * 8 * width}[name]
    return layers * added + 2 * width + 2  # and a linear head for two labels


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["lora", *BOTTLENECKS])
def test_trained_parameters_are_those_counted_by_hand(name, shape):
    from pocketbert.loading import load_model

    config = load_model(shape).config
    assert (config.layers, config.width) == SHAPES[shape]
    start = Start(shape, config, lambda seed: Encoder(config, seed=None))
    method = get_method(name)
    settings = method.resolve(method.read({}), start, DataSize(1_000, 2))
    encoder = Encoder(config, seed=None)  # a shape without numbers
    network = make_network(method, encoder, settings, {"rte": 2})
    assert sum(p.numel() for p in network.chosen(method.trains).values()) == by_hand(name, *SHAPES[shape])


@pytest.mark.parametrize("shape", SHAPES)
def test_fusion_parameters_are_those_counted_by_hand(shape):
    layers, width = SHAPES[shape]
    config = Config(vocabulary=10, width=width, layers=layers, heads=width // 64, inner=width)
    with torch.device("meta"):
        members = {name: Bottleneck(width, 32, "relu", after_norm=True) for name in ("mnli", "rte")}
        fusion = Fusion(members, width)
    own = sum(p.numel() for name, p in fusion.named_parameters() if not name.startswith("members."))
    assert own == 2 * (width * width + width) + width * width
    assert config.layers * own == layers * (3 * width**2 + 2 * width)


def test_layers_that_get_modules_are_the_uppermost():
    encoder = Encoder(Config(vocabulary=10, width=24, layers=4, heads=3, inner=24, positions=8), seed=0)
    put_bottlenecks(encoder, ("after_feed_forward",), 4, "relu", after_norm=True, top=2, seed=0)
    assert list(encoder.added()) == ["layers.2.after_feed_forward", "layers.3.after_feed_forward"]
    network = Network(encoder, {"toy": make_head("linear", 24, 2)}, "mean")
    assert network.lowest_trained(get_method("pfeiffer").trains) == 2
    before = weights_fingerprint(encoder)
    put_low_rank(encoder, 2, 1.0, top=1, seed=0)
    assert list(encoder.added()) == ["layers.3.attention.projection"]
    assert weights_fingerprint(encoder) == before
    encoder.put_added({})
    assert not encoder.added()
    with pytest.raises(UserError, match="adapter_layers: 'top:0' is not all, nor top: and a number"):
        get_method("pfeiffer").read({"adapter_layers": "top:0"})
