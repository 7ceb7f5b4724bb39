"""Our encoder is the same function as `transformers`' BERT: outputs, states, maps, and every gradient."""

import numpy as np
import pytest
import torch
from conftest import VOCABULARY, hugging_face_bert, random_batch

from pocketbert.checkpoints import name_map, read_encoder, read_pretraining, save_model
from pocketbert.encoder import Encoder
from pocketbert.tokenizer import Tokenizer

ACTIVATIONS = ["gelu", "gelu_new", "relu", "silu", "tanh", "gelu_pytorch_tanh", "swish"]


def random_shape(seed: int) -> dict:
    """Uneven sizes: nothing is a power of two unless by chance; every activation and 1 to 12 layers come up."""
    random = np.random.default_rng(seed)
    heads, head_width = int(random.integers(1, 8)), int(random.integers(3, 20))
    return {
        "vocab_size": int(random.integers(20, 300)),
        "hidden_size": heads * head_width,
        "num_attention_heads": heads,
        "num_hidden_layers": 1 + seed % 12,
        "intermediate_size": int(random.integers(5, 130)),
        "max_position_embeddings": int(random.integers(40, 90)),
        "type_vocab_size": int(random.integers(2, 4)),
        "hidden_act": ACTIVATIONS[seed % len(ACTIVATIONS)],
        "layer_norm_eps": float(10.0 ** -random.integers(5, 13)),
    }


def close(ours: torch.Tensor, theirs: torch.Tensor, dtype: torch.dtype, what: str) -> None:
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    worst = (ours - theirs).abs().max().item()
    assert worst <= tolerance * theirs.abs().max().item(), f"{what}: differs by {worst}"


def pair_of_models(tmp_path, seed: int, dtype: torch.dtype, kind: str = "BertModel"):
    theirs = hugging_face_bert(kind, seed=seed, **random_shape(seed))
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = (read_encoder if kind == "BertModel" else read_pretraining)(tmp_path / "theirs")
    return ours.to(dtype).eval(), theirs.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("seed", range(14))
def test_outputs_states_maps_and_gradients_equal_transformers(seed, dtype, tmp_path):
    ours, theirs = pair_of_models(tmp_path, seed, dtype)
    batch = random_batch(theirs.config, rows=5, length=13 + seed, seed=seed, pairs=seed % 3 != 0, padding=seed % 4 != 0)
    expected = theirs(**batch, output_hidden_states=True, output_attentions=True)
    written_out = ours(**batch, hidden_states=True, attentions=True)
    fast = ours(**batch, hidden_states=True)

    for got in (written_out, fast):
        close(got.last_hidden_state, expected.last_hidden_state, dtype, "last hidden state")
        close(got.pooler_output, expected.pooler_output, dtype, "pooler output")
        assert len(got.hidden_states) == len(expected.hidden_states) == theirs.config.num_hidden_layers + 1
        for i, (a, b) in enumerate(zip(got.hidden_states, expected.hidden_states, strict=True)):
            close(a, b, dtype, f"hidden state {i}")
    assert fast.attentions is None
    for i, (a, b) in enumerate(zip(written_out.attentions, expected.attentions, strict=True)):
        close(a, b, dtype, f"attention map {i}")

    weights = torch.randn(expected.last_hidden_state.shape, generator=torch.Generator().manual_seed(1)).to(dtype)

    def loss(result):
        return (result.last_hidden_state * weights).sum() + (result.pooler_output**3).sum()

    loss(expected).backward()
    loss(fast).backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    compared = set()
    for name, parameter in ours.named_parameters():
        several = name_map(ours)[name]
        compared.update(several)
        close(parameter.grad, torch.cat([gradients[n] for n in several]), dtype, f"gradient of {name}")
    assert compared == set(gradients), "every parameter of theirs was compared"


@pytest.mark.parametrize("seed", range(4))
def test_masked_word_and_next_sentence_logits_equal_transformers(seed, tmp_path):
    ours, theirs = pair_of_models(tmp_path, seed, torch.float32, "BertForPreTraining")
    batch = random_batch(theirs.config, rows=4, length=17, seed=seed)
    expected, got = theirs(**batch), ours(**batch)
    close(got.words, expected.prediction_logits, torch.float32, "word logits")
    close(got.next_sentence, expected.seq_relationship_logits, torch.float32, "next-sentence logits")
    (expected.prediction_logits.logsumexp(-1).sum() + expected.seq_relationship_logits[:, 0].sum()).backward()
    (got.words.logsumexp(-1).sum() + got.next_sentence[:, 0].sum()).backward()
    gradients = {name.removeprefix("bert."): parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        close(parameter.grad, torch.cat([gradients[n] for n in name_map(ours)[name]]), torch.float32, name)


@pytest.mark.parametrize("length", [20, 64, 65, 200])
def test_fused_attention_and_the_formula_agree_on_short_and_long_texts(length, tmp_path):
    theirs = hugging_face_bert(max_position_embeddings=256)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = read_encoder(tmp_path / "theirs")
    batch = random_batch(theirs.config, rows=4, length=length, seed=1)
    with torch.no_grad():
        fused = ours.eval()(**batch).last_hidden_state
        formula = ours(**batch, attentions=True).last_hidden_state
        expected = theirs(**batch).last_hidden_state
    for got in (fused, formula):
        close(got, expected, torch.float32, "last hidden state")


def test_a_batch_without_mask_and_types_equals_transformers(tmp_path):
    ours, theirs = pair_of_models(tmp_path, 3, torch.float32)
    ids = random_batch(theirs.config, rows=3, length=9, seed=0, padding=False)["input_ids"]
    close(ours(ids).last_hidden_state, theirs(ids).last_hidden_state, torch.float32, "last hidden state")


def test_a_row_of_nothing_but_padding_gives_numbers_as_transformers_does(tmp_path):
    ours, theirs = pair_of_models(tmp_path, 2, torch.float32)
    batch = random_batch(theirs.config, rows=3, length=9, seed=0)
    batch["attention_mask"][1] = 0
    close(ours(**batch).last_hidden_state, theirs(**batch).last_hidden_state, torch.float32, "last hidden state")


@pytest.mark.parametrize("seed", range(3))
def test_what_we_save_transformers_reads_back_exactly(seed, tmp_path):
    import transformers

    shape = {**random_shape(seed), "vocab_size": len(VOCABULARY)}
    theirs = hugging_face_bert(seed=seed, **shape)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = read_encoder(tmp_path / "theirs")
    save_model(ours, tmp_path / "ours", Tokenizer.from_tokens(VOCABULARY))
    back, report = transformers.BertModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    for (name, a), (_, b) in zip(back.named_parameters(), theirs.named_parameters(), strict=True):
        assert torch.equal(a, b), name
    batch = random_batch(theirs.config, rows=3, length=11, seed=seed)
    close(back.eval()(**batch).last_hidden_state, ours.eval()(**batch).last_hidden_state, torch.float32, "states")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    text = ["The film abc", "unknown ZZZ"]
    rows = Tokenizer.from_folder(tmp_path / "ours")(text)
    assert tokenizer(text)["input_ids"] == [rows.row(i).tolist() for i in range(2)]


def test_a_saved_pretraining_model_comes_back_exactly_in_both_libraries(tmp_path):
    import transformers

    theirs = hugging_face_bert("BertForPreTraining")
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = read_pretraining(tmp_path / "theirs")
    save_model(ours, tmp_path / "ours")
    again, _ = read_pretraining(tmp_path / "ours")
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), again.parameters(), strict=True))
    back = transformers.BertForPreTraining.from_pretrained(tmp_path / "ours")
    assert all(torch.equal(a, b) for a, b in zip(back.parameters(), theirs.parameters(), strict=True))


def test_fresh_weights_have_the_spread_that_transformers_gives(tmp_path):
    theirs = hugging_face_bert(hidden_size=128, num_attention_heads=2, vocab_size=3_000)
    theirs.save_pretrained(tmp_path / "theirs")
    read, _ = read_encoder(tmp_path / "theirs")
    fresh = Encoder(read.config, seed=1)
    for name, weight in fresh.named_parameters():
        if "norm" in name:
            assert (weight == (1 if name.endswith("weight") else 0)).all()
        elif weight.ndim == 1:
            assert (weight == 0).all()
        elif weight.numel() > 1_000:
            assert abs(weight.std().item() - 0.02) < 0.002, name
    assert (fresh.embeddings.word.weight[0] == 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_last_layer_for_cls_alone_equals_the_full_layer_with_every_gradient(seed, tmp_path):
    ours, theirs = pair_of_models(tmp_path, seed, torch.float64)
    batch = random_batch(theirs.config, rows=5, length=12 + seed, seed=seed)
    gradients = []
    for only_cls in (False, True):
        ours.zero_grad()
        encoding = ours(**batch, only_cls=only_cls)
        (encoding.pooler_output**3).sum().backward()
        gradients.append({name: p.grad.clone() for name, p in ours.named_parameters()})
        first = encoding.last_hidden_state[:, 0]
        close(first, theirs(**batch).last_hidden_state[:, 0], torch.float64, "first state")
    for name, gradient in gradients[0].items():
        close(gradients[1][name], gradient, torch.float64, name)
