"""SST-5: the Stanford Sentiment Treebank (Socher et al. 2013) in five grades."""

from pocketbert.tasks.registry import File, Hub, Parts, builtin
from pocketbert.tasks.task import Split

LABELS = ("very negative", "negative", "neutral", "positive", "very positive")


@builtin(
    "sst5",
    description="film-review sentences in five grades (Stanford Sentiment Treebank)",
    labels=LABELS,
    licence="Apache-2.0 as shipped with the minbert assignment (Stanford Sentiment Treebank, research use)",
    files={
        part: File(f"sst5_minbert/sst-{ending}.txt", format="bars")
        for part, ending in (("train", "train"), ("validation", "dev"), ("test", "test"))
    },
    hub=Hub(
        "SetFit/sst5",
        {
            part: File(f"{ending}.jsonl", label="label_text", format="jsonl")
            for part, ending in (("train", "train"), ("validation", "dev"), ("test", "test"))
        },
    ),
    values={str(number): name for number, name in enumerate(LABELS)},
)
def sst5(parts: Parts) -> dict[str, Split]:
    return {"train": parts.read("train"), "dev": parts.read("validation"), "test": parts.read("test")}
