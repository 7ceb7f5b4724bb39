"""RTE of GLUE: does the first sentence entail the second? Its test is GLUE's dev, which has labels."""

from pocketbert.tasks.registry import File, Hub, Parts, builtin
from pocketbert.tasks.split import cut_split
from pocketbert.tasks.task import Split


@builtin(
    "rte",
    description="does the first sentence entail the second? (GLUE; test = GLUE's dev, dev cut from train)",
    labels=("entailment", "not_entailment"),
    licence="none stated (PASCAL RTE 1–3 and 5, research use)",
    pair=True,
    files={
        "train": File("rte_glue/train.tsv", text="sentence1", second="sentence2"),
        "validation": File("rte_glue/dev.tsv", text="sentence1", second="sentence2"),
        "test": File("rte_glue/test.tsv", text="sentence1", second="sentence2", label=None),
    },
    hub=Hub(
        "nyu-mll/glue",
        {
            part: File(f"rte/{part}-00000-of-00001.parquet", text="sentence1", second="sentence2", format="parquet")
            for part in ("train", "validation", "test")
        },
    ),
)
def rte(parts: Parts) -> dict[str, Split]:
    cut = cut_split(parts.read("train"), {"dev": 0.1})
    parts.notes.append(
        f"rte: dev ({len(cut['dev']):,}) is cut from GLUE's train, no text on both sides; test is GLUE's dev; GLUE's "
        "test, whose labels are withheld, is the split 'hidden'"
    )
    return {**cut, "test": parts.read("validation"), "hidden": parts.read("test")}
