"""`pocketbert fill`."""

import pytest

from pocketbert.checkpoints import save_model
from pocketbert.config import Config
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.fill_mask import fill
from pocketbert.heads import Pretraining


@pytest.fixture(scope="module")
def models(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("models")
    config = Config(vocabulary=len(corpus.tokenizer), width=24, layers=1, heads=2, inner=32, positions=16)
    encoder = Encoder(config, seed=0)
    save_model(Pretraining(encoder, seed=1), folder / "whole", corpus.tokenizer)
    save_model(encoder, folder / "headless", corpus.tokenizer)
    return folder


def test_every_gap_gets_its_words_in_order_of_probability(models, corpus):
    gaps = fill("the [MASK] was near the [mask].", models / "whole", top=3)
    assert [len(gap) for gap in gaps] == [3, 3]
    everything = fill("the [MASK] was", str(models / "whole"), top=10_000)[0]
    assert len(everything) == len(corpus.tokenizer)
    shares = [guess.probability for guess in everything]
    assert shares == sorted(shares, reverse=True)
    assert abs(sum(shares) - 1) < 1e-9


def test_what_cannot_be_filled_is_said(models):
    with pytest.raises(UserError, match=r"write \[MASK\]"):
        fill("no gap here", models / "whole")
    with pytest.raises(UserError, match="no masked-word head"):
        fill("a [MASK]", models / "headless")
    with pytest.raises(UserError, match="fresh weights"):
        fill("a [MASK]", "tiny")
    with pytest.raises(UserError, match="top"):
        fill("a [MASK]", models / "whole", top=0)
    with pytest.raises(UserError, match="reads 16"):
        fill("the " * 20 + "[MASK]", models / "whole")
