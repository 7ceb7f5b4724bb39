"""Suites: items of which each is one sentence, or two, about different people; and which of them are compared.

An item has a text for every group that it has (he, she, they). Every pair of groups of an item is a pair of the audit.
Built in are `pronouns`, `names` and `nouns`, made of our own templates; others come from a file (suite_files.py), from
data sets (suite_data.py) or are the user's own sentences (own_texts.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pocketbert.counterfactuals.swaps import GROUPS
from pocketbert.counterfactuals.templates import Template, templates
from pocketbert.counterfactuals.words import KINSHIP, NAMES, NEUTRAL_NAMES, OCCUPATIONS
from pocketbert.errors import UserError

Texts = tuple[str, ...]  # one text, or two
OTHER = "*"  # a group that ends so has a neutral word changed, or another name of the same group: a control
T = TypeVar("T")
SMALL = 1  # fillers per template in the small suite that a study runs


@dataclass(frozen=True)
class Item:
    """One situation, told about each group."""

    id: str
    template: str  # items of one template are not independent
    texts: dict[str, Texts]  # by group
    expected: str | None = None  # the right label: positive, negative, entailment, not_entailment, or the task's own
    word: str | None = None  # what is exchanged, where it was drawn from a list
    tags: dict[str, str] = field(default_factory=dict)  # for breakdowns: the occupation; does a verb change?


@dataclass(frozen=True)
class Swap:
    """A comparison: what happens when the second group's text is replaced by the first's."""

    first: str
    second: str
    control: str | None = None  # the name of the control swap to read it beside
    title: str = ""  # of a control: what is changed

    @property
    def name(self) -> str:
        return self.title or f"{self.first}-{self.second}"


@dataclass(frozen=True)
class Suite:
    """Items, the comparisons that are asked, their controls, and the tags to break results down by."""

    name: str
    items: tuple[Item, ...]
    comparisons: tuple[Swap, ...]
    controls: tuple[Swap, ...] = ()
    breakdowns: tuple[str, ...] = ()
    pair: bool = False
    notes: tuple[str, ...] = ()

    def of(self, swap: Swap) -> list[Item]:
        """The items that have both of its groups."""
        return [item for item in self.items if swap.first in item.texts and swap.second in item.texts]

    def only(self, names: Sequence[str]) -> "Suite":
        """With these comparisons alone."""
        known = {swap.name: swap for swap in self.comparisons}
        for name in names:
            if name not in known:
                first, _, second = name.partition("-")
                groups = list(dict.fromkeys(group for item in self.items for group in item.texts))
                if first not in groups or second not in groups or first == second:
                    raise UserError(
                        f"comparison '{name}': suite {self.name} has the groups {', '.join(groups)}; name two of them, "
                        f"as in {next(iter(known), 'she-he')}"
                    )
                known[name] = Swap(first, second)
        return replace(self, comparisons=tuple(known[name] for name in names))


# -- built in ----------------------------------------------------------------------------------------------------------


def pronouns(*, pair: bool, small: bool = False) -> Suite:
    """He, she and they in our templates, said of people with an occupation and of people with a name for all genders.

    Controls: another neutral word in the sentence of he; and "the nurses are" for "the nurse is", which changes the
    grammar as they does, and no pronoun.
    """
    people = [(f"the {one}", one) for one, _ in OCCUPATIONS] + [(name, "") for name in NEUTRAL_NAMES]
    items = []
    for number, template in enumerate(templates(pair=pair, pronouns=True)):
        for person, occupation in _some(people, number, SMALL if small else len(people)):
            texts = {group: template.render(person, group) for group in GROUPS}
            texts[f"he{OTHER}"] = template.render(person, "he", other=True)
            tags = {"verb": "changes" if template.agreement else "stays"}
            tags |= {"occupation": occupation} if occupation else {}
            items.append(Item(f"{template.name} {person}", template.name, texts, _expected(template, pair), tags=tags))
    for number, template in enumerate(templates(pair=pair, pronouns=False)):
        for one, several in _some(OCCUPATIONS, number, SMALL if small else len(OCCUPATIONS)):
            if template.agreement:
                texts = {
                    "one": template.render(f"the {one}"),
                    "several": template.render(f"the {several}", plural=True),
                }
                items.append(Item(f"{template.name} {one}", template.name, texts, _expected(template, pair)))
    return Suite(
        "pronouns",
        tuple(items),
        (Swap("she", "he", "neutral word"), Swap("they", "he", "plural"), Swap("they", "she", "plural")),
        (Swap(f"he{OTHER}", "he", title="neutral word"), Swap("several", "one", title="plural")),
        () if small else ("verb", "occupation"),
        pair,
    )


def names(*, pair: bool, small: bool = False) -> Suite:
    """First names alone: women's for men's, and names of each origin for English ones of the same gender.

    The control: another name of the same origin and gender.
    """
    origins = list(NAMES)
    base = origins[0]
    items = []
    for number, template in enumerate(templates(pair=pair, pronouns=False)):
        expected = _expected(template, pair)
        for gender in ("female", "male"):
            own = [
                {origin: NAMES[origin][gender][place] for origin in origins}
                for place in range(len(NAMES[base][gender]))
            ]
            for place, people in _some(list(enumerate(own)), number, SMALL if small else len(own)):
                texts = {origin: template.render(name) for origin, name in people.items()}
                following = NAMES[base][gender][(place + 1) % len(own)]
                texts[f"{base}{OTHER}"] = template.render(following)
                word = f"{gender} {place}"
                items.append(Item(f"{template.name} {word}", template.name, texts, expected, word))
        couples = [
            (f"{origin} {place}", couple)
            for origin in origins
            for place, couple in enumerate(zip(*NAMES[origin].values(), strict=True))
        ]
        for word, (female, male) in _some(couples, number, 2 * SMALL if small else len(couples)):
            texts = {"female": template.render(female), "male": template.render(male)}
            tags = {"origin": word.rpartition(" ")[0]}
            items.append(Item(f"{template.name} {word}", template.name, texts, expected, word, tags))
    swaps = [Swap("female", "male", "same group"), *(Swap(origin, base, "same group") for origin in origins[1:])]
    control = Swap(f"{base}{OTHER}", base, title="same group")
    return Suite("names", tuple(items), tuple(swaps), (control,), () if small else ("origin",), pair)


def nouns(*, pair: bool, small: bool = False) -> Suite:
    """My wife for my husband, the actress for the actor, and the word that says neither; a neutral word as control."""
    kinds = [(kind, f"{'my' if kind in OWNED else 'the'} ", words) for kind, words in KINSHIP.items()]
    items = []
    for number, template in enumerate(templates(pair=pair, pronouns=False)):
        for kind, article, words in _some(kinds, number, 2 * SMALL if small else len(kinds)):
            texts = {
                group: template.render(f"{article}{word}")
                for group, word in zip(("male", "female", "neither"), words, strict=True)
            }
            texts[f"male{OTHER}"] = template.render(f"{article}{words[0]}", other=True)
            items.append(Item(f"{template.name} {kind}", template.name, texts, _expected(template, pair), kind))
    return Suite(
        "nouns",
        tuple(items),
        (
            Swap("female", "male", "neutral word"),
            Swap("neither", "male", "neutral word"),
            Swap("neither", "female", "neutral word"),
        ),
        (Swap(f"male{OTHER}", "male", title="neutral word"),),
        (),
        pair,
    )


OWNED = ("parent", "partner", "sibling", "child", "grandparent", "cousin")
BUILT_IN: Mapping[str, Callable[..., Suite]] = {"pronouns": pronouns, "names": names, "nouns": nouns}


def _expected(template: Template, pair: bool) -> str:
    if pair:
        return "entailment" if template.positive else "not_entailment"
    return "positive" if template.positive else "negative"


def _some(values: Sequence[T], start: int, count: int) -> Iterator[T]:
    """So many of the values, others for each template."""
    for place in range(min(count, len(values))):
        yield values[(start * count + place) % len(values)]
