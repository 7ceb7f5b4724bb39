"""Model folders: every layout that exists in the wild is read, every broken one is refused by name."""

import json
import shutil

import pytest
import torch
from conftest import VOCABULARY, hugging_face_bert, random_batch
from safetensors.torch import load_file, save_file

from pocketbert.catalog import load_encoder, load_tokenizer
from pocketbert.checkpoints import read_config, read_encoder, read_pretraining, save_model
from pocketbert.config import Config
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.tokenizer import Tokenizer


def rewrite(folder, change):
    """Load the weights, change them, write them back."""
    tensors = load_file(folder / "model.safetensors")
    save_file(change(tensors) or tensors, folder / "model.safetensors", {"format": "pt"})


def edit_config(folder, **fields):
    content = json.loads((folder / "config.json").read_text())
    content.update(fields)
    (folder / "config.json").write_text(json.dumps({k: v for k, v in content.items() if v != "REMOVE"}))


# -- what is read ----------------------------------------------------------------------------------------------------


def outputs(folder):
    encoder, report = read_encoder(folder)
    theirs = hugging_face_bert()
    batch = random_batch(theirs.config, rows=3, length=10, seed=0)
    with torch.no_grad():
        return encoder.eval()(**batch).last_hidden_state, theirs(**batch).last_hidden_state, report


def test_the_bert_prefix_and_the_old_names_of_norms_are_understood(folder):
    def old(tensors):
        def name(key):
            return "bert." + key.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )

        return {name(key): tensor for key, tensor in tensors.items()}

    rewrite(folder, old)
    ours, theirs, _ = outputs(folder)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_a_sharded_checkpoint_is_read_through_its_index(folder):
    shutil.rmtree(folder)
    hugging_face_bert().save_pretrained(folder, max_shard_size="20KB")
    assert (folder / "model.safetensors.index.json").is_file()
    assert not (folder / "model.safetensors").exists()
    ours, theirs, _ = outputs(folder)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_cast_to_float32_exactly(folder, dtype):
    rewrite(folder, lambda tensors: {name: tensor.to(dtype) for name, tensor in tensors.items()})
    stored = load_file(folder / "model.safetensors")
    encoder, _ = read_encoder(folder)
    assert all(parameter.dtype == torch.float32 for parameter in encoder.parameters())
    assert torch.equal(encoder.embeddings.word.weight, stored["embeddings.word_embeddings.weight"].float())


def test_the_report_says_what_was_loaded_what_is_new_and_what_was_left_and_why(folder, capsys):
    def spoil(tensors):
        for name in [name for name in tensors if name.startswith("pooler")]:
            del tensors[name]
        tensors["embeddings.position_ids"] = torch.arange(64)[None]
        tensors["classifier.weight"] = torch.zeros(2, 32)
        tensors["cls.predictions.bias"] = torch.zeros(9)

    rewrite(folder, spoil)
    load_encoder(folder, seed=7)
    said = capsys.readouterr().err
    assert "loaded" in said
    assert "new       pooler" in said
    assert "fresh weights from seed 7" in said
    assert "another task's head" in said
    assert "no weight" in said
    assert "load_pretraining reads them" in said
    one, two, other = (load_encoder(folder, seed=seed, quiet=True).pooler.weight for seed in (7, 7, 8))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_weights_do_not_change_when_the_file_is_removed_afterwards(folder):
    encoder, _ = read_encoder(folder)
    before = encoder.embeddings.word.weight.sum().item()
    (folder / "model.safetensors").write_bytes(b"")
    assert encoder.embeddings.word.weight.sum().item() == before


def test_saving_in_half_precision_halves_the_file_and_loads_as_its_rounding(folder, tmp_path):
    encoder, _ = read_encoder(folder)
    save_model(encoder, tmp_path / "half", dtype=torch.float16)
    again, _ = read_encoder(tmp_path / "half")
    assert torch.equal(again.pooler.weight, encoder.pooler.weight.half().float())
    sizes = [(place / "model.safetensors").stat().st_size for place in (tmp_path / "half", folder)]
    assert sizes[0] < 0.6 * sizes[1]


def test_saving_never_replaces_a_folder_unless_asked(folder, tmp_path):
    encoder, _ = read_encoder(folder)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "note.txt").write_text("mine")
    with pytest.raises(UserError, match="already exists"):
        save_model(encoder, tmp_path / "there")
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["note.txt"]
    save_model(encoder, tmp_path / "there", Tokenizer.from_tokens(VOCABULARY), overwrite=True)
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]


def test_a_tokenizer_that_does_not_fit_is_not_saved(tmp_path):
    small = Encoder(Config(vocabulary=6, width=8, layers=1, heads=1, inner=8))
    with pytest.raises(UserError, match="23 tokens on a table of 6"):
        save_model(small, tmp_path / "out", Tokenizer.from_tokens(VOCABULARY))
    assert not (tmp_path / "out").exists()


# -- what is refused -------------------------------------------------------------------------------------------------


def truncate(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-50])


def corrupt_header(folder):
    path = folder / "model.safetensors"
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])


def nan_in(tensors):
    tensors["encoder.layer.1.output.dense.bias"][3] = float("nan")


def index_outside(folder):
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"pooler.dense.bias": "../elsewhere.safetensors"}})
    )


def index_missing_shard(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))


def only_a_pickle(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


def edit_header(folder, change):
    """Change the header of the weights and leave the numbers."""
    path = folder / "model.safetensors"
    length = int.from_bytes(path.read_bytes()[:8], "little")
    content = json.loads(path.read_bytes()[8 : 8 + length])
    change(content)
    text = json.dumps(content).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + path.read_bytes()[8 + length :])


def tokenizer_settings(folder, content):
    (folder / "tokenizer_config.json").write_text(json.dumps(content))


def vocabulary(folder, lines):
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def tokenizer_json(folder, change):
    content = json.loads(Tokenizer.from_tokens(VOCABULARY).to_json())
    change(content)
    (folder / "tokenizer.json").write_text(json.dumps(content))


BAD = {
    "an empty folder": (lambda f: [path.unlink() for path in f.iterdir()], "folder is empty"),
    "no config": (lambda f: (f / "config.json").unlink(), "config.json: no such file"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no model.safetensors in it"),
    "truncated weights": (truncate, "model.safetensors: not a whole safetensors file"),
    "a corrupt header": (corrupt_header, "model.safetensors: not a whole safetensors file"),
    "empty weights": (lambda f: (f / "model.safetensors").write_bytes(b""), "not a whole safetensors file"),
    "weights of an unknown type": (
        lambda f: edit_header(f, lambda h: h["pooler.dense.bias"].update(dtype="F99")),
        "not a whole safetensors file.*F99",
    ),
    "weights beyond the file": (
        lambda f: edit_header(f, lambda h: h["pooler.dense.bias"].update(data_offsets=[10**9, 10**9 + 128])),
        "not a whole safetensors file",
    ),
    "weights that overlap": (
        lambda f: edit_header(f, lambda h: h["pooler.dense.bias"].update(data_offsets=[0, 128])),
        "not a whole safetensors file",
    ),
    "a wrong shape": (
        lambda f: rewrite(f, lambda t: {**t, "pooler.dense.bias": torch.zeros(31)}),
        r"'pooler.dense.bias' has shape \(31,\), but config.json makes it \(32,\)",
    ),
    "a missing key": (
        lambda f: rewrite(f, lambda t: {k: v for k, v in t.items() if k != "encoder.layer.1.attention.self.key.bias"}),
        "tensor 'encoder.layer.1.attention.self.key.bias' missing",
    ),
    "an unexpected key": (
        lambda f: rewrite(f, lambda t: {**t, "encoder.layer.0.surprise": torch.zeros(2)}),
        "tensor 'encoder.layer.0.surprise' unexpected",
    ),
    "more layers than it says": (lambda f: edit_config(f, num_hidden_layers=1), "encoder.layer.1.*unexpected"),
    "NaN weights": (lambda f: rewrite(f, nan_in), "'encoder.layer.1.output.dense.bias' holds NaN"),
    "the same weight twice": (
        lambda f: rewrite(f, lambda t: {**t, "bert.pooler.dense.bias": torch.zeros(32)}),
        "pooler.dense.bias.*there twice",
    ),
    "whole numbers as weights": (
        lambda f: rewrite(f, lambda t: {**t, "pooler.dense.bias": torch.zeros(32, dtype=torch.int64)}),
        "'pooler.dense.bias' is of type I64",
    ),
    "a config that is no JSON": (lambda f: (f / "config.json").write_text("{'a': 1"), "config.json: not JSON"),
    "a config that is no object": (lambda f: (f / "config.json").write_text("[1]"), "expected a JSON object"),
    "a config nested without end": (lambda f: (f / "config.json").write_text("[" * 90_000), "nested too deeply"),
    "a config of a gigabyte": (lambda f: (f / "config.json").write_bytes(b" " * 1_000_001), "1,000,001 bytes"),
    "a config without a field": (lambda f: edit_config(f, hidden_size="REMOVE"), "field 'hidden_size' is missing"),
    "indivisible heads": (lambda f: edit_config(f, num_attention_heads=5), "'hidden_size'.*not divisible by the 5"),
    "absurd sizes": (lambda f: edit_config(f, vocab_size=10**12), "'vocab_size'.*outside"),
    "sizes absurd together": (
        lambda f: edit_config(
            f, vocab_size=4_000_000, hidden_size=16_384, num_attention_heads=1, intermediate_size=99_999
        ),
        "parameters; that is no BERT",
    ),
    "big sizes without the weights": (
        lambda f: edit_config(
            f, hidden_size=8_192, num_attention_heads=64, intermediate_size=32_768, num_hidden_layers=2
        ),
        "'embeddings.word_embeddings.weight' has shape",
    ),
    "a field that is null": (lambda f: edit_config(f, hidden_size=None), "field 'hidden_size' is missing"),
    "a number no float can hold": (lambda f: edit_config(f, layer_norm_eps=10**400), "'layer_norm_eps'.*outside"),
    "an endless dropout": (lambda f: edit_config(f, hidden_dropout_prob=float("inf")), "Infinity is no number"),
    "no number": (lambda f: edit_config(f, initializer_range=float("nan")), "NaN is no number"),
    "no epsilon": (lambda f: edit_config(f, layer_norm_eps=0), "'layer_norm_eps'.*0 is outside"),
    "half a layer": (lambda f: edit_config(f, num_hidden_layers=1.5), "'num_hidden_layers'.*not a whole number"),
    "yes for a number": (lambda f: edit_config(f, num_hidden_layers=True), "'num_hidden_layers'.*not a whole number"),
    "no token types": (lambda f: edit_config(f, type_vocab_size=0), "'type_vocab_size'.*outside 1 to"),
    "a billion positions": (lambda f: edit_config(f, max_position_embeddings=10**9), "'max_position_embeddings'"),
    "padding beyond the words": (lambda f: edit_config(f, pad_token_id=23), "'pad_token_id'.*not a row"),
    "an activation that is a list": (lambda f: edit_config(f, hidden_act=["gelu"] * 500), "'hidden_act'.*is not known"),
    "an unknown activation": (lambda f: edit_config(f, hidden_act="mish"), "'hidden_act'.*'mish' is not known"),
    "a text for a number": (lambda f: edit_config(f, hidden_size="32"), "'hidden_size'.*not a whole number"),
    "code from elsewhere": (lambda f: edit_config(f, auto_map={"AutoModel": "x.Y"}), "'auto_map' asks to run code"),
    "another architecture": (lambda f: edit_config(f, model_type="roberta"), "'model_type' is 'roberta'"),
    "relative positions": (
        lambda f: edit_config(f, position_embedding_type="relative_key"),
        "'position_embedding_type' is 'relative_key'",
    ),
    "a decoder": (lambda f: edit_config(f, is_decoder=True), "'is_decoder' is True"),
    "quantised": (lambda f: edit_config(f, quantization_config={"bits": 4}), "'quantization_config' is set"),
    "too many words": (lambda f: vocabulary(f, [*VOCABULARY, "more"]), "24 tokens, but field 'vocab_size'"),
    "a word twice": (lambda f: vocabulary(f, [*VOCABULARY[:-1], "the"]), "vocab.txt: line 23 repeats line 22, 'the'"),
    "no [MASK]": (lambda f: vocabulary(f, [t for t in VOCABULARY if t != "[MASK]"]), r"'\[MASK\]' is not in"),
    "a vocabulary that is no text": (
        lambda f: (f / "vocab.txt").write_bytes(b"\xff\xfe\x00a"),
        "vocab.txt: cannot read",
    ),
    "a vocabulary of one huge line": (lambda f: vocabulary(f, ["a" * 10_000]), "has 10,000 characters"),
    "a vocabulary of blank lines": (lambda f: vocabulary(f, [*VOCABULARY, "", "", "a"]), "line 25 repeats line 24, ''"),
    "lower case said in words": (
        lambda f: tokenizer_settings(f, {"do_lower_case": "yes"}),
        "tokenizer_config.json: field 'do_lower_case' is 'yes'; expected true, false or null",
    ),
    "accents that are a number": (lambda f: tokenizer_settings(f, {"strip_accents": 3}), "'strip_accents' is 3"),
    "tokenizer settings that are a list": (lambda f: tokenizer_settings(f, []), "expected a JSON object, found list"),
    "a tokenizer that is no JSON": (lambda f: (f / "tokenizer.json").write_text("{"), "tokenizer.json: not JSON"),
    "a tokenizer of another kind": (
        lambda f: tokenizer_json(f, lambda c: c["model"].update(type="BPE")),
        "'model.type' is 'BPE'",
    ),
    "a tokenizer that is none": (lambda f: (f / "tokenizer.json").write_text('{"model": {}}'), "not a tokenizer"),
    "a tokenizer with holes in its ids": (
        lambda f: tokenizer_json(f, lambda c: c["model"]["vocab"].update({"far": 10**6})),
        "ids are not 0 to",
    ),
    "a tokenizer with another layout": (
        lambda f: tokenizer_json(f, lambda c: c.update(post_processor=None)),
        r"\[CLS\] a \[SEP\] b \[SEP\]",
    ),
    "an index that leaves the folder": (index_outside, "weight_map.*elsewhere.safetensors"),
    "an index without its shard": (index_missing_shard, "'model-1.safetensors', which is not in"),
    "only a pickle": (only_a_pickle, r"pytorch_model.bin, a pickle.*models import .* --allow-pickle"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_folder_is_refused_with_the_file_and_the_field(what, folder):
    spoil, says = BAD[what]
    spoil(folder)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(UserError, match=says) as caught:
        load_encoder(folder)
    assert str(folder) in str(caught.value), "the error names the file"
    assert sorted(path.name for path in folder.iterdir()) == before, "nothing was written"


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        load_encoder(str(tmp_path / "nowhere" / "deep"))


def test_a_file_in_place_of_a_folder_is_refused(folder):
    with pytest.raises(UserError, match="no such folder"):
        load_encoder(folder / "config.json")


def test_absurd_sizes_are_refused_before_anything_is_allocated(folder):
    import tracemalloc

    spoil, _ = BAD["big sizes without the weights"]
    spoil(folder)
    tracemalloc.start()
    with pytest.raises(UserError):
        read_encoder(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read_config(folder).parameters_about > 10**9
    assert peak < 20_000_000


def test_an_output_table_that_is_not_the_word_table_is_refused(tmp_path):
    hugging_face_bert("BertForPreTraining").save_pretrained(tmp_path / "model")
    rewrite(tmp_path / "model", lambda t: {**t, "cls.predictions.decoder.weight": torch.zeros(len(VOCABULARY), 32)})
    with pytest.raises(UserError, match="not tied to the word table"):
        read_pretraining(tmp_path / "model")


def test_a_checkpoint_without_the_masked_word_head_cannot_be_loaded_for_pretraining(folder):
    with pytest.raises(UserError, match="'cls.predictions.*missing"):
        read_pretraining(folder)


def test_a_message_quotes_a_little_of_what_was_found_and_stays_on_one_line(folder):
    for spoil in (
        lambda: edit_config(folder, model_type="\n" * 9_000),
        lambda: edit_config(folder, model_type="bert", vocab_size=[0] * 9_000),
        lambda: edit_config(folder, vocab_size=len(VOCABULARY), is_decoder="x" * 9_000),
        lambda: (
            edit_config(folder, is_decoder=False)
            or rewrite(folder, lambda t: {**t, "a\n" * 9_000: torch.zeros(1), "b" * 9_000: torch.zeros(1)})
        ),
    ):
        spoil()
        with pytest.raises(UserError) as caught:
            load_encoder(folder)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value).replace(str(folder), "")) < 400


def test_the_longest_text_that_other_libraries_write_is_no_mistake(folder):
    """`transformers` writes 1e30 where a tokenizer has no longest text."""
    tokenizer_settings(folder, {"model_max_length": 10**30, "do_lower_case": None, "tokenize_chinese_chars": None})
    assert load_tokenizer(folder)(["THE film"]).row(0).tolist() == [2, 21, 22, 3]


def test_the_home_of_nobody_is_no_folder():
    with pytest.raises(UserError, match="~nobody-at-all/models/a: no such folder"):
        load_encoder("~nobody-at-all/models/a")


def test_a_vocabulary_smaller_than_its_table_is_fine(folder):
    vocabulary(folder, VOCABULARY[:-1])
    assert len(load_tokenizer(folder)) == len(VOCABULARY) - 1


def test_an_unwritable_place_is_said(folder, tmp_path):
    encoder, _ = read_encoder(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        save_model(encoder, tmp_path / "file" / "model")
