"""QNLI of GLUE: does the sentence answer the question? Made from SQuAD, so it is cut by passage."""

from pocketbert.tasks.registry import File, Hub, Parts, builtin
from pocketbert.tasks.split import cut_split, normalise
from pocketbert.tasks.task import Split


@builtin(
    "qnli",
    description="does the sentence answer the question? (GLUE)",
    labels=("entailment", "not_entailment"),
    licence="CC BY-SA 4.0 (SQuAD)",
    pair=True,
    files={
        "validation": File("qnli/dev.tsv", text="question", second="sentence"),
        "test": File("qnli/test.tsv", text="question", second="sentence", label=None),
    },
    hub=Hub(
        "nyu-mll/glue",
        {
            part: File(f"qnli/{part}-00000-of-00001.parquet", text="question", second="sentence", format="parquet")
            for part in ("train", "validation", "test")
        },
    ),
)
def qnli(parts: Parts) -> dict[str, Split]:
    labelled = parts.read("validation")
    if parts.has("train"):
        train = parts.read("train")
        splits = {**cut_split(train, {"dev": 0.05}, groups=passages(train)), "test": labelled}
        parts.notes.append("qnli: dev is cut from train by passage; test is GLUE's dev")
    else:
        splits = cut_split(labelled, {"test": 0.1, "dev": 0.1}, groups=passages(labelled))
        splits = {name: splits[name] for name in ("train", "dev", "test")}
        parts.notes.append("qnli: only GLUE's dev is here; train, dev and test are cut from it by passage")
    return {**splits, "hidden": parts.read("test")}


def passages(split: Split) -> list[str]:
    """The sentence of each pair: questions about one sentence stay on one side."""
    return [normalise(second) for second in split.second_texts or ()]
