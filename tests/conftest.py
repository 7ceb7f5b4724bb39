"""What several test files need: where real data is, and small BERTs made by `transformers` to compare with."""

import os
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a test that reaches for the network is a wrong test

import numpy as np
import pytest
import torch

torch.set_num_threads(1)  # pytest-xdist runs one process a core

REPOSITORY = Path(__file__).parent.parent


def data_folder() -> Path | None:
    for place in (os.environ.get("POCKETBERT_DATA"), REPOSITORY.parent / "shared" / "data"):
        if place and Path(place).is_dir():
            return Path(place)
    return None


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data; tests that need it are skipped where there is none."""
    found = data_folder()
    if found is None:
        pytest.skip("no real data: set POCKETBERT_DATA to the folder that holds it")
    return found


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    """No test reads or writes the person's own imported models."""
    monkeypatch.setenv("POCKETBERT_HOME", str(tmp_path / "home"))


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", *(f"##{c}" for c in "abcdefgh"), "the", "film"]


def hugging_face_bert(kind: str = "BertModel", *, seed: int = 0, dtype: torch.dtype = torch.float32, **settings):
    """A small BERT of `transformers` in which every weight, biases and norms too, is a random number."""
    import transformers

    sizes = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
    }
    config = transformers.BertConfig(**{**sizes, **settings})
    config._attn_implementation = "eager"  # the only one that gives attention maps
    torch.manual_seed(seed)
    model = getattr(transformers, kind)(config).to(dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(dtype)
            weight.copy_(1 + 0.1 * noise if "LayerNorm.weight" in name else 0.1 * noise)
    return model


@pytest.fixture
def folder(tmp_path) -> Path:
    """A good model folder, written by `transformers`, for tests to spoil."""
    target = tmp_path / "model"
    hugging_face_bert().save_pretrained(target)
    (target / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return target


def random_batch(config, *, rows: int, length: int, seed: int, pairs: bool = True, padding: bool = True):
    """Ids, mask and types with uneven lengths; the first row is always full."""
    random = np.random.default_rng(seed)
    lengths = random.integers(2, length + 1, rows) if padding else np.full(rows, length)
    lengths[0] = length
    mask = np.arange(length) < lengths[:, None]
    ids = random.integers(1, config.vocab_size, (rows, length)) * mask
    types = (np.arange(length) >= (lengths[:, None] // 2)) & mask if pairs else np.zeros_like(mask)
    names = ("input_ids", "attention_mask", "token_type_ids")
    return {
        name: torch.from_numpy(values.astype(np.int64)) for name, values in zip(names, (ids, mask, types), strict=True)
    }
