"""A run folder that was edited by hand, manifest and all, is used or refused in one line that names the file."""

import hashlib
import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from pocketbert.errors import UserError
from pocketbert.runs import load_run
from pocketbert.train import train_run

TOLD = {"threads": 1, "batch_size": 32, "epochs": 2, "learning_rate": 1e-2, "max_length": 16, "keep": "best"}
ALONE = {"threads": 1}  # for a method without a model


def sign(run) -> None:
    """Write the manifest anew, as somebody would who knows how."""
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in manifest["files"]:
        data = (run / name).read_bytes()
        manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    path.write_text(json.dumps(manifest))


def edit(run, name, change) -> None:
    path = run / name
    content = json.loads(path.read_text())
    path.write_text(json.dumps(change(content) or content))
    if name != "manifest.json":
        sign(run)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("settings.json", lambda it: [it], "damaged: it: the list .* is not an object"),
        ("settings.json", lambda it: it.pop("labels") and None, "damaged: labels is missing"),
        ("settings.json", lambda it: it.update(labels=["a", 3]), "damaged: labels, entry 2: 3 is not text"),
        ("settings.json", lambda it: it.update(labels=["a", "a"]), "none twice"),
        ("settings.json", lambda it: it.update(labels=["a"]), "labels: .* with 2 to 100,000 entries"),
        ("settings.json", lambda it: it.update(pair="no"), "pair: 'no' is not true or false"),
        ("settings.json", lambda it: it.update(method=["majority"]), "method: the list .* is not text"),
        ("settings.json", lambda it: it.update(method="magic"), "damaged: method 'magic' is not known"),
        ("settings.json", lambda it: it.update(format=3), "made by a newer pocketbert .format 3.; update"),
        ("settings.json", lambda it: it.update(format=0), "format: 0 is not a whole number from 1 to 2"),
        ("settings.json", lambda it: it["settings"].update(odd=1), "damaged: setting 'odd' is not known"),
        ("settings.json", lambda it: it["settings"].update(threads=10**5), "damaged: threads: 100000 is not"),
        ("settings.json", lambda it: it["settings"].update(seed=-1), "damaged: seed: -1 is not"),
        ("settings.json", lambda it: it.update(ancestry="none"), "damaged: ancestry: 'none' is not a list"),
        ("settings.json", lambda it: it.update({"from": 3}), "damaged: from: 3 is not text"),
        ("metrics.json", lambda it: it.update(scores=[]), "scores: the list"),
        ("metrics.json", lambda it: it["scores"]["test"].update(accuracy="1"), "scores, test, accuracy: '1' is not a"),
        ("metrics.json", lambda it: it["scores"]["test"].update(confusion=[[1]]), "no table of 2 x 2"),
        ("metrics.json", lambda it: it.update(cost={}), "cost, seconds is missing"),
        ("metrics.json", lambda it: it.update(best={"epoch": 1}), "best, learning_rate is missing"),
        ("metrics.json", lambda it: it.update(history=[{}]), "history, entry 1, seed is missing"),
        ("manifest.json", lambda it: it.update(files={}), "manifest.json: damaged: settings.json is missing"),
        ("manifest.json", lambda it: it.update(format=99), "made by a newer"),
        ("manifest.json", lambda it: it["files"].update({"../x": {"bytes": 1, "sha256": ""}}), "'../x' is no file of"),
        ("manifest.json", lambda it: it["files"].update({"/x": {"bytes": 1, "sha256": ""}}), "'/x' is no file of"),
        ("manifest.json", lambda it: it["files"].update(x={"bytes": "1"}), "files, 'x', bytes: '1' is not a whole"),
        ("model/majority.json", lambda it: it.update(shares=[0.5, 0.6]), "majority.json: damaged: .* sum to one"),
        ("model/majority.json", lambda it: it.update(shares=[1.0]), "no shares of 2 labels"),
        ("model/majority.json", lambda it: it.update(shares="half"), "shares: 'half' is not a list of numbers"),
    ],
)
def test_a_file_of_a_run_that_is_not_what_it_was_is_named(task, tmp_path, name, change, says):
    train_run(task, "majority", tmp_path / "run", settings=ALONE)
    edit(tmp_path / "run", name, change)
    with pytest.raises(UserError, match=says) as caught:
        load_run(tmp_path / "run").fitted()
    assert str(tmp_path / "run" / name) in str(caught.value)


def test_a_coin_of_other_labels_is_refused(task, tmp_path):
    train_run(task, "random", tmp_path / "run", settings=ALONE)
    edit(tmp_path / "run", "model/random.json", lambda it: it.update(labels=3))
    with pytest.raises(UserError, match=r"random.json: damaged: it has 3 labels, and the run 2"):
        load_run(tmp_path / "run").fitted()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda tensors: tensors.update(idf=tensors["idf"][:-1]), "not the weights of"),
        (lambda tensors: tensors.pop("bias"), "damaged: 'bias'"),
        (lambda tensors: tensors.update(bias=np.array([np.nan])), "weights that are no numbers"),
        (lambda tensors: tensors.update(weights=tensors["weights"].astype(np.int32)), "weights that are no numbers"),
    ],
)
def test_word_weights_of_another_shape_or_that_are_no_numbers_are_refused(task, tmp_path, change, says):
    train_run(task, "tfidf", tmp_path / "run", settings=ALONE)
    path = tmp_path / "run" / "model" / "tfidf.safetensors"
    with safe_open(path, framework="np") as file:
        words = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, words)
    sign(tmp_path / "run")
    with pytest.raises(UserError, match=f"tfidf.safetensors: damaged: .*{says}|tfidf.safetensors: {says}"):
        load_run(tmp_path / "run").fitted()
    path.write_bytes(path.read_bytes()[:100])
    sign(tmp_path / "run")
    with pytest.raises(UserError, match=r"tfidf.safetensors: damaged"):
        load_run(tmp_path / "run").fitted()


def test_a_head_that_is_no_numbers_and_hashes_that_are_none_are_refused(task, model, tmp_path):
    run = tmp_path / "run"
    train_run(task, "finetune", run, model=model, settings=TOLD)
    path = run / "model" / "trained.safetensors"
    save_file({name: tensor * np.float32("nan") for name, tensor in load_file(path).items()}, path)
    save_file({"hashes": np.zeros(3, dtype=np.float32)}, run / "seen.safetensors")
    sign(run)
    with pytest.raises(UserError, match=r"trained.safetensors: damaged: weights that are no numbers"):
        load_run(run).fitted()
    with pytest.raises(UserError, match=r"seen.safetensors: damaged: hashes is float32"):
        load_run(run).seen(task.train)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tensors, progress: tensors.popitem(),
        lambda tensors, progress: progress.pop("history"),
        lambda tensors, progress: progress.update(group=-1),
        lambda tensors, progress: progress.update(best=[{"seed": 0}]),
        lambda tensors, progress: [tensors.pop(name) for name in list(tensors) if name.startswith("best/")],
        lambda tensors, progress: tensors.update({n: t[:1] for n, t in tensors.items() if "state/" in n and t.ndim}),
    ],
)
def test_a_damaged_checkpoint_is_named_before_training_is_done_again(task, model, tmp_path, spoil):
    def stop(progress) -> None:
        if progress.record is not None and progress.epoch == 2:
            raise KeyboardInterrupt

    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train_run(task, "finetune", run, model=model, settings=TOLD, report=stop)
    path = run / "checkpoint.safetensors"
    with safe_open(path, framework="np") as file:
        progress = json.loads(file.metadata()["progress"])
    tensors = load_file(path)
    spoil(tensors, progress)
    save_file(tensors, path, {"progress": json.dumps(progress)})
    with pytest.raises(UserError, match="damaged"):
        train_run(task, "finetune", run, model=model, settings=TOLD)
    path.unlink()
    assert train_run(task, "finetune", run, model=model, settings=TOLD).metrics["trials"] == 2
