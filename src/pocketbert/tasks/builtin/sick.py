"""SICK (Marelli et al. 2014): entailment, neutral or contradiction between descriptions."""

from pocketbert.tasks.registry import File, Hub, Parts, builtin
from pocketbert.tasks.task import Split


@builtin(
    "sick",
    description="sentence pairs made by rule from captions (SemEval 2014, official de-duplicated release)",
    labels=("entailment", "neutral", "contradiction"),
    licence="CC BY-NC-SA 3.0",
    pair=True,
    files={
        part: File(
            "sick/SICK.txt",
            text="sentence_A",
            second="sentence_B",
            label="entailment_label",
            only=("SemEval_set", value),
        )
        for part, value in (("train", "TRAIN"), ("validation", "TRIAL"), ("test", "TEST"))
    },
    # The data set's repository holds a script; the Hub's own conversion to Parquet holds the rows.
    hub=Hub(
        "RobZamp/sick",
        {
            part: File(f"default/{part}/0000.parquet", text="sentence_A", second="sentence_B", format="parquet")
            for part in ("train", "validation", "test")
        },
        revision="refs/convert/parquet",
    ),
)
def sick(parts: Parts) -> dict[str, Split]:
    return {"train": parts.read("train"), "dev": parts.read("validation"), "test": parts.read("test")}
