"""MNLI (Williams et al. 2018): entailment, neutral or contradiction; its test is the matched dev set."""

from pocketbert.tasks.normalise import normalise
from pocketbert.tasks.registry import File, Hub, Parts, builtin
from pocketbert.tasks.split import cut_split
from pocketbert.tasks.task import Split


@builtin(
    "mnli",
    description="premise and hypothesis from five genres; test = matched dev, dev cut from train by premise",
    labels=("entailment", "neutral", "contradiction"),
    licence="OANC and others, mixed (see the MultiNLI paper)",
    pair=True,
    files={
        "train": File("nli_train_from_natinst/mnli_train_subset.tsv", text="sentence1", second="sentence2"),
        "validation": File(
            "mnli/dev_matched_bertsofafeather.tsv", text="premise", second="hypothesis", label="gold_label"
        ),
    },
    hub=Hub(
        "nyu-mll/glue",
        {
            "train": File("mnli/train-00000-of-00001.parquet", text="premise", second="hypothesis", format="parquet"),
            "validation": File(
                "mnli/validation_matched-00000-of-00001.parquet", text="premise", second="hypothesis", format="parquet"
            ),
        },
    ),
)
def mnli(parts: Parts) -> dict[str, Split]:
    train = parts.read("train")
    cut = cut_split(train, {"dev": 0.1}, groups=premises(train))
    parts.notes.append(f"mnli: dev ({len(cut['dev']):,}) is cut from train by premise; test is the matched dev set")
    return {**cut, "test": parts.read("validation")}


def premises(split: Split) -> list[str]:
    return [normalise(text) for text in split.texts]
