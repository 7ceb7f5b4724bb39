"""The architecture: imports go one way, modules stay small, names are the field's, what is promised is there."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

MODULES = sorted((REPOSITORY / "src" / "pocketbert").rglob("*.py"))

# Names that a reader who knows scikit-learn and Hugging Face would have to look up; each has a better one.
OWN_WORDS = {"settle", "look_at", "said", "about", "chance", "critical", "_needed", "like_length", "even", "strange"}
OWN_WORDS |= {"refuse_strangers", "Kept", "Shelf", "Lessons", "carried", "CARRIED", "at_hand", "is_at_hand"}
OWN_MODULES = {"lessons.py", "vectors.py", "filling.py", "models.py", "use.py"}
ONE_THING = {"Plan", "Row", "Job", "Source", "Watch", "Batch", "Parts", "place", "around"}


def definitions(path: Path) -> list[ast.AST]:
    """Everything in a module that gives a name to others: functions, classes, arguments, fields, globals.

    But for arguments that are numbers: "about 5 ticks" is the field's own word.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.ClassDef | ast.arg
    fields = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.Module) for node in node.body]
    named = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [node for node in named if ast.unparse(getattr(node, "annotation", None) or node) != "int"] + [
        target
        for node in fields
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]


def name_of(node: ast.AST) -> str:
    return getattr(node, "name", None) or getattr(node, "arg", None) or getattr(node, "id", "")


def test_imports_go_down_the_flow_and_no_rival_is_imported():
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([linter, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(REPOSITORY / "src")))
def test_every_module_is_small_and_says_what_it_is_for(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""'), "a module begins by saying what it is for"
    assert len(text.splitlines()) <= 450, "one noun a module"


def test_names_are_in_the_words_of_the_field():
    found = [f"{path.name}: {name_of(node)}" for path in MODULES for node in definitions(path)]
    assert [one for one in found if one.split(": ")[1] in OWN_WORDS] == []
    commands = REPOSITORY / "src" / "pocketbert" / "cli"
    assert [path for path in MODULES if path.name in OWN_MODULES and path != commands / "models.py"] == []


def test_seconds_are_time_and_never_second_sentences():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.arg | ast.AnnAssign) and "seconds" in ast.unparse(node).split(":")[0]:
                kind = "" if node.annotation is None else ast.unparse(node.annotation)
                assert kind in ("float", "int", "float | None", "Annotated[float, Between(0, math.inf)]"), (
                    f"{path}:{node.lineno}"
                )


def test_one_name_is_one_thing():
    """Not of methods, which belong to their class, nor of locals."""
    where: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [node]
            for name in {name_of(target) for target in targets} & ONE_THING:
                where.setdefault(name, []).append(path.name)
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_every_public_name_can_be_imported_and_the_docs_of_each_are_there():
    import pocketbert

    for name in pocketbert.__all__:
        assert getattr(pocketbert, name) is not None
        assert name.startswith("__") or getattr(pocketbert, name).__doc__, name
    assert set(dir(pocketbert)) >= set(pocketbert.__all__)
    with pytest.raises(AttributeError, match="nosuch"):
        _ = pocketbert.nosuch


def test_importing_the_package_does_not_import_torch():
    program = "import sys, pocketbert; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_dependency_is_explained():
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    text = (REPOSITORY / "docs" / "dependencies.md").read_text()
    pins = (REPOSITORY / "constraints.txt").read_text().lower().replace("_", "-")
    for line in [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]:
        name = line.split(">=")[0].split("==")[0]
        assert f"`{name}`" in text, f"{name} is not in docs/dependencies.md"
        assert f"\n{name.lower().replace('_', '-')}==" in pins, f"{name} is not pinned in constraints.txt"


def test_no_code_asks_for_a_method_or_a_head_by_its_name():
    """What differs from one to the next is said by the method or the head itself. Names stand in a method's own file,
    the registry's order, published tables, the list of heads; and one schedule is called like a head."""
    from pocketbert.config import HEADS
    from pocketbert.methods import list_methods

    methods, found = set(list_methods()), []
    for path in MODULES:
        name = path.relative_to(REPOSITORY / "src" / "pocketbert").as_posix()
        if name.startswith("study/presets/") or name == "methods/base.py":
            continue
        allowed = {name.removeprefix("methods/").removesuffix(".py")} if name.startswith("methods/") else set()
        allowed |= {"config.py": set(HEADS), "training/settings.py": {"linear"}}.get(name, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in (methods | set(HEADS)) - allowed:
                found.append(f"{name}:{node.lineno}: {node.value!r}")
    assert found == []


def test_the_page_about_methods_is_what_the_command_prints():
    from pocketbert.cli.methods import as_markdown
    from pocketbert.methods import list_methods

    page = (REPOSITORY / "docs" / "methods.md").read_text(encoding="utf-8")
    assert as_markdown(list_methods()) in page, "make it again: pocketbert methods --markdown"
