"""Which pronoun does a pretrained model expect of whom? The probability of he, she and they in a gap, by occupation."""

import os
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pocketbert.audits.suite_data import women_by_occupation
from pocketbert.counterfactuals.swaps import GROUPS
from pocketbert.counterfactuals.words import OCCUPATIONS
from pocketbert.errors import UserError
from pocketbert.loading import load_model, load_pretraining

MASK = "[MASK]"
SENTENCES = (  # the verb fits he, she and they
    "The {person} said that {mask} would come tomorrow.",
    "The {person} was tired because {mask} had worked all night.",
    "When the {person} came home, {mask} made some tea.",
    "The {person} knew that {mask} could help us.",
    "After lunch the {person} told us what {mask} had seen.",
    "We asked the {person} whether {mask} might stay.",
)
HEAD = "cls.predictions.bias"


@dataclass(frozen=True)
class Preference:
    """One occupation: how probable each pronoun is, of the three together; means over sentences."""

    occupation: str
    he: float
    she: float
    they: float
    she_share: float  # of he and she; the next two are its range over the sentences
    least: float
    most: float
    women: float | None  # per cent in the occupation, where Winogender's statistics are available


@dataclass(frozen=True)
class MaskedResult:
    """A model's preferences, the most female occupation first."""

    model: str
    sentences: int
    preferences: tuple[Preference, ...]
    correlation: float | None  # of she_share with the share of women (Spearman), over the occupations that have one
    occupations: int  # that have one
    p: float | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def audit_masked(model: str | os.PathLike[str]) -> MaskedResult:
    """For a model with a masked-word head: which pronoun it prefers for each occupation."""
    import torch
    from scipy import stats

    found = load_model(model)
    if found.folder is None or not has_masked_head(model):
        raise UserError(
            f"model '{found.name}' has no masked-word head: no pronoun can be asked of it; audit a run of it"
        )
    tokenizer = found.require_tokenizer()
    rows = {token: row for row, token in enumerate(tokenizer.tokens)}
    ids = [rows[group] for group in GROUPS if group in rows]
    if len(ids) < len(GROUPS):
        raise UserError(f"model '{found.name}': its vocabulary does not have he, she and they; is it an English one?")
    women = women_by_occupation()
    people = list(dict.fromkeys([*(one for one, _ in OCCUPATIONS), *women]))
    texts = [text.format(person=person, mask=MASK) for person in people for text in SENTENCES]
    network = load_pretraining(model, quiet=True)
    encoded = tokenizer(texts)
    shares = []
    with torch.inference_mode():
        for start in range(0, len(texts), 64):
            batch = encoded.take(np.arange(start, min(start + 64, len(texts)))).tensors()
            states = network.encoder(**batch).last_hidden_state
            gaps = batch["input_ids"] == tokenizer.ids[MASK]  # one in each text
            logits = network.words(states[gaps], network.encoder.embeddings.word.weight)
            shares.append(logits[:, ids].double().softmax(dim=1).numpy())
    values = np.concatenate(shares).reshape(len(people), len(SENTENCES), len(GROUPS))
    she_of_two = values[..., 1] / (values[..., 0] + values[..., 1])
    preferences = [
        Preference(
            person,
            he=float(values[place, :, 0].mean()),
            she=float(values[place, :, 1].mean()),
            they=float(values[place, :, 2].mean()),
            she_share=float(she_of_two[place].mean()),
            least=float(she_of_two[place].min()),
            most=float(she_of_two[place].max()),
            women=women.get(person),
        )
        for place, person in enumerate(people)
    ]
    known = [(one.she_share, one.women) for one in preferences if one.women is not None]
    correlation = stats.spearmanr(*zip(*known, strict=True)) if len(known) > 2 else None
    return MaskedResult(
        model=found.name,
        sentences=len(SENTENCES),
        preferences=tuple(sorted(preferences, key=lambda one: -one.she_share)),
        correlation=None if correlation is None else float(correlation.statistic),
        occupations=len(known),
        p=None if correlation is None else float(correlation.pvalue),
    )


def has_masked_head(model: str | os.PathLike[str]) -> bool:
    from pocketbert.checkpoints import WeightFile

    folder = load_model(model).folder
    return folder is not None and HEAD in WeightFile(folder).shapes
