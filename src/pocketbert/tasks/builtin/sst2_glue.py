"""SST-2 as GLUE has it: 67 thousand phrases to train on, sentences to choose on, a test without labels."""

from pocketbert.tasks.registry import File, Hub, Parts, builtin
from pocketbert.tasks.task import Split


@builtin(
    "sst2-glue",
    description="SST-2 with phrases, as in GLUE; its test labels are withheld",
    labels=("negative", "positive"),
    licence="none stated (Stanford Sentiment Treebank, research use)",
    files={
        "train": File("sst2_glue/train.tsv", text="sentence"),
        "validation": File("sst2_glue/dev.tsv", text="sentence"),
        "test": File("sst2_glue/test.tsv", text="sentence", label=None),
    },
    hub=Hub(
        "nyu-mll/glue",
        {
            part: File(f"sst2/{part}-00000-of-00001.parquet", text="sentence", format="parquet")
            for part in ("train", "validation", "test")
        },
    ),
    values={"0": "negative", "1": "positive"},
)
def sst2_glue(parts: Parts) -> dict[str, Split]:
    # GLUE's dev, never a random cut of the phrases: phrases of one sentence overlap each other.
    return {"train": parts.read("train"), "dev": parts.read("validation"), "test": parts.read("test")}
