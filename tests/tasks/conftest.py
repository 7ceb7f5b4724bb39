"""What the tests of tasks share: where the real data are, and files made on the spot."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real data; tests that need them skip with a reason where they are absent."""
    folder = Path(os.environ.get("POCKETBERT_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "sst2_classic").is_dir():
        pytest.skip(f"the real data are not in {folder}; set POCKETBERT_DATA to a folder that has them")
    monkeypatch.setenv("POCKETBERT_DATA", str(folder))
    return folder


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any data."""
    monkeypatch.delenv("POCKETBERT_DATA", raising=False)
    monkeypatch.setenv("POCKETBERT_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of these contents, and give its path."""

    def make(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


@pytest.fixture
def reviews(write: Callable[..., Path]) -> Path:
    """A hundred labelled rows, fine in every way."""
    lines = [f'"film number {row} was, well, {"good" if row % 2 else "bad"}",{row % 2}' for row in range(100)]
    return write("reviews.csv", "text,label\n" + "\n".join(lines) + "\n")
