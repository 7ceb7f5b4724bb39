"""SNLI (Bowman et al. 2015): entailment, neutral or contradiction between captions."""

from pocketbert.tasks.normalise import normalise
from pocketbert.tasks.registry import File, Hub, Parts, builtin
from pocketbert.tasks.split import cut_split
from pocketbert.tasks.task import Split


@builtin(
    "snli",
    description="premise and hypothesis about pictures; from a train subset on disk, or whole from the Hub",
    labels=("entailment", "neutral", "contradiction"),
    licence="CC BY-SA 4.0",
    pair=True,
    files={"train": File("nli_train_from_natinst/snli_train_subset.tsv", text="sentence1", second="sentence2")},
    hub=Hub(
        "stanfordnlp/snli",
        {
            part: File(
                f"plain_text/{part}-00000-of-00001.parquet", text="premise", second="hypothesis", format="parquet"
            )
            for part in ("train", "validation", "test")
        },
    ),
)
def snli(parts: Parts) -> dict[str, Split]:
    train = parts.read("train")
    if parts.has("validation"):
        return {"train": train, "dev": parts.read("validation"), "test": parts.read("test")}
    cut = cut_split(train, {"test": 0.1, "dev": 0.1}, groups=[normalise(text) for text in train.texts])
    parts.notes.append("snli: only a part of train is here; train, dev and test are cut from it by premise")
    return {name: cut[name] for name in ("train", "dev", "test")}
