"""A student report on transfer: RTE from scratch, from BERT-base, by AdapterFusion over MNLI, QNLI, SICK and RTE."""

from typing import Any, ClassVar

from pocketbert.methods import baselines
from pocketbert.report.document import Document, Published
from pocketbert.report.wording import DASH, percent
from pocketbert.study.presets.preset import Preset, cell, register, stand_in
from pocketbert.study.rows import Row

MODEL, OTHERS = "google-bert/bert-base-uncased", ("pocket-mini", "pocket-tiny", "minilm-l6")
MOST = 10_000  # pairs of a source task
SOURCES = {"mnli": f"mnli@{MOST}", "qnli": f"qnli@{MOST}", "sick": f"sick@{MOST}"}
EPOCHS = 5  # on RTE
SOURCE_EPOCHS = 3
HEAD = "two-layer"  # theirs: a dense layer as wide as BERT before the output
SCRATCH, TUNED, FUSED = "from scratch", "fine-tuned", "AdapterFusion"
PARENT, ADAPTER = "fine-tuned, to start from", "adapter, to fuse"
THEIRS = {SCRATCH: "52.83 (1.39)", TUNED: "65.82 (1.23)", FUSED: "67.15 (0.29)"}  # mean (std) of several seeds
LINES: tuple[tuple[str, str, dict[str, Any]], ...] = (  # name, method, what it is told beside epochs and head
    (SCRATCH, "scratch", {}),
    (TUNED, "finetune", {}),
    ("fine-tuned, linear head", "finetune", {"head": "linear"}),
    ("fine-tuned, BiLSTM head", "finetune", {"head": "bilstm"}),
    ("BitFit", "bitfit", {}),
    ("LoRA", "lora", {}),
    ("Houlsby adapters", "houlsby", {}),
    ("Pfeiffer adapters", "pfeiffer", {}),
)
MULTITASK, SEQUENTIAL, FROM_PARENT = "multi-task", "sequential: MNLI, SICK, RTE", "fine-tuned after MNLI"
COLUMNS = ("RTE", "theirs, mean (std) %", "ours, test %", "std over seeds, points")


@register
class Nyu(Preset):
    name: ClassVar[str] = "nyu"
    description: ClassVar[str] = "RTE from scratch, fine-tuned, by adapters, AdapterFusion, multi-task, sequential"

    def rows(self, seeds: int, hub: bool) -> tuple[list[Row], list[str]]:
        model, why = stand_in(MODEL, OTHERS, hub=hub)
        note = f"{model} stands in for {MODEL}" if why else None

        def row(name: str, method: str, told: dict[str, Any], **more: Any) -> Row:
            settings = {"epochs": EPOCHS, "head": HEAD, **told}
            given: dict[str, Any] = {} if "start" in more else {"model": model}
            given |= {"name": name, "settings": settings, "seeds": seeds, "theirs": THEIRS.get(name), "note": note}
            return Row("rte", method, **given, **more)

        rows = [Row("rte", name, seeds=seeds) for name in baselines()]
        rows += [row(name, method, told) for name, method, told in LINES]
        fused = {task: f"{source}: {ADAPTER}" for task, source in SOURCES.items()}
        rows.append(row(FUSED, "fusion", {}, adapters={**fused, "rte": "rte: Pfeiffer adapters"}))
        rows.append(row(MULTITASK, "multitask", {"sampling": "square-root"}, others=tuple(SOURCES.values())))
        told = {"forward_transfer": False}
        rows.append(row(SEQUENTIAL, "sequential", told, others=(SOURCES["mnli"], SOURCES["sick"])))
        rows.append(row(FROM_PARENT, "finetune", {}, start=f"{SOURCES['mnli']}: {PARENT}"))
        source = {"epochs": SOURCE_EPOCHS, "head": HEAD}
        shared = "one training, which all seeds share"
        for task in SOURCES.values():
            rows.append(Row(task, "majority", seeds=1))
            rows.append(Row(task, "pfeiffer", model, dict(source), ADAPTER, seeds=1, note=shared))
        rows.append(Row(SOURCES["mnli"], "finetune", model, dict(source), PARENT, seeds=1, note=shared))
        return rows, [why] if why else []

    def published(self, document: Document) -> tuple[Published, ...]:
        names = [*(name for name, _, _ in LINES), FUSED, MULTITASK, SEQUENTIAL, FROM_PARENT]
        lines = tuple(
            (name, THEIRS.get(name, ""), cell(document, "rte", name), _spread(document, name)) for name in names
        )
        stands = " ".join(f"{note}." for note in document.notes if "stands in" in note)
        cut = "; ".join(note for task in document.tasks if task.name.startswith("qnli") for note in task.notes)
        return (
            Published(
                "RTE, test accuracy (GLUE's dev, 277 pairs)",
                COLUMNS,
                lines,
                (
                    f"Source tasks have at most {MOST:,} training pairs, {SOURCE_EPOCHS} epochs and one training each; "
                    f"RTE has {EPOCHS} epochs. Their seeds, epochs and rates are not told, and their source adapters "
                    f"were trained on whole data sets. {cut + '. ' if cut else ''}{stands}"
                ).strip(),
            ),
        )


def _spread(document: Document, name: str) -> str:
    row = document.row("rte", name)
    if row is None or row.accuracy is None or row.accuracy.std is None:
        return DASH
    return percent(row.accuracy.std)
