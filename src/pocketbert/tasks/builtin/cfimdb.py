"""CFIMDB: IMDB reviews and edits of them that turn their sentiment (Kaushik et al. 2020)."""

from pocketbert.tasks.registry import File, Parts, builtin
from pocketbert.tasks.task import Split


@builtin(
    "cfimdb",
    description="long film reviews and counterfactual edits of them; its test labels are placeholders",
    labels=("negative", "positive"),
    licence="Apache-2.0",
    files={
        part: File(f"cfimdb_minbert/cfimdb-{ending}.txt", format="bars")
        for part, ending in (("train", "train"), ("validation", "dev"), ("test", "test"))
    },
    values={"0": "negative", "1": "positive"},
    how="they are the cfimdb-*.txt files of github.com/neubig/minbert-assignment, folder data",
)
def cfimdb(parts: Parts) -> dict[str, Split]:
    return {"train": parts.read("train"), "dev": parts.read("validation"), "test": parts.read("test")}
