"""What the service answers is what the run predicts, alone or among many."""

import threading

import numpy as np
import pytest
from training.conftest import make_split

from pocketbert.runs import load_run

from .conftest import Served


def offline(folder, texts, second=None) -> np.ndarray:
    return load_run(folder).fitted().probabilities(texts, second)


def values(body) -> np.ndarray:
    return np.array([list(one["probabilities"].values()) for one in body["predictions"]])


@pytest.mark.parametrize("name", ["single", "words", "frozen"])
def test_an_answer_is_the_offline_prediction(service, runs, name):
    texts = make_split(150, 11).texts
    status, body = service.predict(*texts, model=name)
    assert status == 200
    assert body["model"] == name
    expected = offline(runs[name], texts)
    assert np.abs(values(body) - expected).max() < 1e-6
    labels = load_run(runs[name]).labels
    assert [one["label"] for one in body["predictions"]] == [labels[best] for best in expected.argmax(axis=1)]


def test_pairs_are_answered_by_a_model_of_pairs_and_refused_by_another(service, runs):
    split = make_split(40, 12, pairs=True)
    pairs = list(zip(split.texts, split.second_texts, strict=True))
    status, body = service.predict(*pairs, model="pairs")
    assert status == 200
    assert np.abs(values(body) - offline(runs["pairs"], split.texts, split.second_texts)).max() < 1e-6
    status, body = service.predict("good", ["good", "film"])
    assert (status, body["error"]) == (422, "texts[1]: model 'single' classifies single texts")
    assert service.predict("good", model="pairs")[0] == 422


def test_tokens_and_truncation_are_told_and_a_text_of_nothing_has_no_prediction(service):
    status, body = service.predict("good film", "film " * 500, " \u200b\n", "")
    assert status == 200
    short, long, *blank = body["predictions"]
    assert (short["tokens"], short["truncated"]) == (4, False)
    assert (long["tokens"], long["truncated"]) == (128, True)
    assert blank == [{"label": None, "probabilities": None, "tokens": 0, "truncated": False}] * 2
    assert service.predict()[1]["predictions"] == []


def test_many_at_once_get_each_their_own_answer_in_fewer_batches(service, runs):
    split = make_split(600, 13)
    expected = offline(runs["single"], split.texts)
    before = service.counts()
    wrong: list[int] = []

    def client(first: int) -> None:
        for row in range(first, 600, 12):
            status, body = service.predict(split.texts[row])
            if status != 200 or np.abs(values(body)[0] - expected[row]).max() > 1e-6:
                wrong.append(row)

    clients = [threading.Thread(target=client, args=(first,)) for first in range(12)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    assert wrong == []
    after = service.counts()
    assert after['pocketbert_texts_total{model="single"}'] - before['pocketbert_texts_total{model="single"}'] == 600
    assert after["pocketbert_batch_texts_count"] - before["pocketbert_batch_texts_count"] < 600


def test_what_models_there_are(service, runs):
    status, body, _ = service.ask("GET", "/v1/models")
    assert status == 200
    assert [one["name"] for one in body["models"]] == ["single", "words", "pairs", "frozen"]
    assert [one["pair"] for one in body["models"]] == [False, False, True, False]
    assert body["models"][1]["layers"] is None
    status, body = service.predict("good", model="nosuch")
    assert status == 404
    assert "single" in body["error"]


def test_health_readiness_and_openapi(service):
    assert service.ask("GET", "/healthz")[:2] == (200, {"status": "alive"})
    assert service.ask("GET", "/readyz")[:2] == (200, {"status": "ready"})
    document = service.ask("GET", "/openapi.json")[1]
    assert set(document["paths"]) == {
        "/v1/predict", "/v1/explain", "/v1/attention", "/v1/swap", "/v1/models", "/healthz", "/readyz", "/metrics"
    }  # fmt: skip


def test_the_words_that_mattered_make_up_the_text_and_the_telling_one_is_among_them(service):
    text = "the film, was LOVELY and  great!"
    status, body, _ = service.ask("POST", "/v1/explain", {"text": text})
    assert status == 200
    (pieces,) = body["pieces"]
    assert "".join(piece["text"] for piece in pieces) == text
    whole = service.predict(text)[1]["predictions"][0]
    without = service.predict("the film, was and  great!")[1]["predictions"][0]
    fall = whole["probabilities"][whole["label"]] - without["probabilities"][whole["label"]]
    (lovely,) = [piece["importance"] for piece in pieces if piece["text"] == "LOVELY"]
    assert lovely == pytest.approx(fall, abs=2e-6)
    status, body, _ = service.ask("POST", "/v1/explain", {"text": ["good film", "bad plot"], "model": "pairs"})
    assert [["".join(p["text"] for p in side)] for side in body["pieces"]] == [["good film"], ["bad plot"]]
    assert service.ask("POST", "/v1/explain", {"text": " "})[0] == 422


def test_attention_maps_are_the_encoders_own(service, runs):
    import torch

    status, body, _ = service.ask("POST", "/v1/attention", {"text": "good film", "layer": 1})
    assert status == 200
    assert body["tokens"] == ["[CLS]", "good", "film", "[SEP]"]
    fitted = load_run(runs["single"]).fitted()
    with torch.inference_mode():
        maps = fitted.network.encoder(**fitted.tokenizer(["good film"]).tensors(), attentions=True).attentions
    assert np.abs(np.array(body["maps"]) - maps[1][0].numpy()).max() < 1e-4
    assert service.ask("POST", "/v1/attention", {"text": "good", "layer": 2})[0] == 422
    assert service.ask("POST", "/v1/attention", {"text": "good", "model": "words"})[0] == 422
    assert service.ask("POST", "/v1/attention", {"text": "film " * 100})[0] == 422


def test_swapping_the_pronoun_gives_both_sides(service):
    status, body, _ = service.ask("POST", "/v1/swap", {"text": "She was good"})
    assert status == 200
    assert body["swapped"]["text"] == "He was good"
    alone = service.predict("He was good")[1]["predictions"][0]
    assert body["swapped"]["prediction"]["label"] == alone["label"]
    assert body["swapped"]["prediction"]["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-6)
    assert service.ask("POST", "/v1/swap", {"text": "the film was good"})[1]["swapped"] is None


def test_adapters_over_one_encoder_share_its_memory(runs):
    from pocketbert.serve.loaded import load_models

    models = load_models([runs["single"]], [runs["frozen"]])
    again = load_models([runs["frozen"]])["frozen"]
    assert models["frozen"].network is not None
    both = [again, models["frozen"]]
    from pocketbert.serve.loaded import share_weights

    share_weights(both)
    first, second = (dict(one.network.encoder.named_parameters()) for one in both)
    assert all(first[name].data_ptr() == second[name].data_ptr() for name in first)
    texts = make_split(20, 14).texts
    probabilities = both[1].probabilities(both[1].items([[text] for text in texts]))
    assert np.abs(probabilities - offline(runs["frozen"], texts)).max() < 1e-6


def test_a_run_with_its_own_encoder_is_no_adapter_and_a_run_named_twice_is_said(runs):
    from pocketbert.errors import UserError
    from pocketbert.serve.loaded import load_models

    with pytest.raises(UserError, match="give it as a RUN"):
        load_models([], [runs["single"]])
    with pytest.raises(UserError, match="twice"):
        load_models([runs["single"], runs["single"]])


def test_a_port_in_use_and_a_folder_that_is_none_are_one_line(service, runs, tmp_path):
    import subprocess
    import sys

    def said(*arguments) -> str:
        command = [sys.executable, "-m", "pocketbert", "serve", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "--port" in said(runs["words"], "--port", service.port)
    assert "no such run" in said(tmp_path / "nosuch", "--port", 0)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"threads": 0}, "--threads 0"),
        ({"threads": 100_000}, "--threads 100000"),
        ({"workers": 0}, "--workers 0"),
        ({"workers": 65}, "--workers 65"),
        ({"port": 65_536}, "--port 65536"),
        ({"port": -1}, "--port -1"),
        ({"token": "short"}, "too short"),
        ({"token": "ä" * 20}, "ASCII"),
        ({"runs": ()}, "what shall be served"),
    ],
)
def test_options_that_cannot_be_are_said_before_anything_is_loaded(wrong, says):
    from pocketbert.errors import UserError
    from pocketbert.serve.options import ServeOptions

    with pytest.raises(UserError, match=says):
        ServeOptions(**{"runs": ("run",), **wrong})


@pytest.mark.slow
def test_each_worker_counts_and_all_are_told_together(runs):
    served = Served(runs["words"], "--workers", "2")
    try:
        for _ in range(20):
            assert served.predict("good")[0] == 200
        counts = served.counts()
        assert counts['pocketbert_texts_total{model="words"}'] == 20
        assert counts['pocketbert_requests_total{route="/v1/predict",status="200"}'] == 20
    finally:
        assert served.end() == 0
