"""`pocketbert lesson`: the list, one of them, as JSON, Markdown or SVG; mistakes are one line and exit code 2."""

import json
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from test_cli import run

from pocketbert.cli import main
from pocketbert.lessons import list_lessons


@pytest.fixture
def command(monkeypatch, capsys):
    """Run a command in this process: exit code, standard output, standard error."""

    def run_here(*arguments):
        monkeypatch.setattr(sys, "argv", ["pocketbert", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run_here


def test_a_lesson_as_json_is_exactly_one_document():
    done = run("lesson", "softmax", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["holds"] is True
    assert document["values"]["softmax_2_1_0"] == pytest.approx([0.665, 0.245, 0.090], abs=5e-4)
    assert {"claim", "holds", "values", "name", "title", "checks"} == set(document)


def test_help_of_the_lessons_imports_no_torch():
    program = "import sys; sys.argv = ['pocketbert', 'lesson', '--help']\nfrom pocketbert.cli import main\n"
    program += "try:\n    main()\nexcept SystemExit:\n    print('torch' in sys.modules)"
    import subprocess

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")


def test_without_a_name_they_are_listed(command):
    code, out, _ = command("lesson")
    assert code == 0
    assert all(name in out for name in list_lessons())
    code, out, _ = command("lesson", "--json")
    assert [one["name"] for one in json.loads(out)] == list(list_lessons())


def test_an_unknown_name_is_one_line_that_lists_the_names(command):
    code, out, err = command("lesson", "layernrom")
    assert code == 2
    assert out == ""
    assert err.startswith("error: lesson 'layernrom' is not known")
    assert all(name in err for name in list_lessons())
    assert len(err.splitlines()) == 1


def test_the_figure_is_written_and_the_page_shows_it(command, tmp_path):
    code, out, _ = command("lesson", "linear-collapse", "--markdown", "--figure", tmp_path / "drawn.svg")
    assert code == 0
    assert out.startswith("# Linear layers")
    assert f"]({(tmp_path / 'drawn.svg').as_posix()})" in out
    assert ElementTree.parse(tmp_path / "drawn.svg").getroot().tag.endswith("svg")


def test_for_a_person_the_page_is_printed_and_the_figure_offered(command):
    code, out, err = command("lesson", "linear-collapse")
    assert code == 0
    assert "✓" in out
    assert "**The claim holds:**" in out
    assert "--figure linear-collapse.svg" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["softmax", "--json", "--markdown"], "give one of them"),
        (["softmax", "--json", "--figure", "-"], "name a file"),
        (["--markdown"], "name it"),
        (["--figure", "a.svg"], "name it"),
        (["softmax", "--pages", "folder"], "give it no name"),
    ],
)
def test_options_that_do_not_go_together_are_refused(command, arguments, says):
    code, _, err = command("lesson", *arguments)
    assert code == 2
    assert says in err


def test_a_figure_that_cannot_be_written_is_one_line(command, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    for arguments in (["linear-collapse", "--figure", tmp_path / "file" / "drawn.svg"], ["--pages", tmp_path / "file"]):
        code, _, err = command("lesson", *arguments)
        assert code == 2
        assert len(err.splitlines()) == 1
        assert str(tmp_path) in err


def test_pages_of_all_lessons_are_written_into_a_folder(command, tmp_path, monkeypatch):
    from pocketbert.lessons import registry

    monkeypatch.setattr(registry, "LESSONS", {"softmax": list_lessons()["softmax"]})
    code, _, err = command("lesson", "--pages", tmp_path / "pages")
    assert code == 0, err
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {"README.md", "softmax.md", "softmax.svg"}
