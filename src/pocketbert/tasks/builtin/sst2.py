"""SST-2, whole sentences: the Stanford Sentiment Treebank (Socher et al. 2013) without its neutral ones."""

from pocketbert.tasks.registry import File, Hub, Parts, builtin
from pocketbert.tasks.task import Split


@builtin(
    "sst2",
    description="film-review sentences, negative or positive (Stanford Sentiment Treebank, whole sentences)",
    labels=("negative", "positive"),
    licence="none stated (Stanford Sentiment Treebank, research use)",
    files={
        part: File(f"sst2_classic/harvardnlp_stsa.binary.{ending}", format="label-text")
        for part, ending in (("train", "train"), ("validation", "dev"), ("test", "test"))
    },
    # The Hub's own conversion to Parquet: it names the labels, whose order differs between copies.
    hub=Hub(
        "gpt3mix/sst2",
        {part: File(f"default/{part}/0000.parquet", format="parquet") for part in ("train", "validation", "test")},
        revision="refs/convert/parquet",
    ),
    values={"0": "negative", "1": "positive"},
)
def sst2(parts: Parts) -> dict[str, Split]:
    return {"train": parts.read("train"), "dev": parts.read("validation"), "test": parts.read("test")}
