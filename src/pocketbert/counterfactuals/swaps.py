"""Exchange pronouns, gendered nouns and names in any English sentence, or say that it cannot be done well.

Every function gives the new text, or None where no swap applies or where the result might not be good English: two
people of different gender (whose "they" is it?), a verb whose subject is unsure, a sentence that is about gender. A
sentence that is left out costs little; a wrong one would be taken for a model's mistake.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from pocketbert.counterfactuals import verbs
from pocketbert.counterfactuals.words import ABOUT_GENDER, NAMES, NOUNS, OTHER_NAMES, word_set

GROUPS = ("he", "she", "they")
ROLES = ("subject", "object", "determiner", "possessive", "reflexive")  # he saw him, his book, it is his, himself
FORMS = {
    "he": ("he", "him", "his", "his", "himself"),
    "she": ("she", "her", "her", "hers", "herself"),
    "they": ("they", "them", "their", "theirs", "themselves"),
}
WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*|['’][A-Za-z]+|[^\sA-Za-z]")
CLITIC = re.compile(r"(?i)(he|she|they)(['’](?:s|d|ll|re|ve))$")
TITLES = {"mr": "Ms", "ms": "Mr"}
COUNTERPART = {a: b for pair in NOUNS for a, b in (pair, pair[::-1])}
NAME_COUNTERPART = {
    a: b
    for genders in NAMES.values()
    for pair in zip(genders["female"], genders["male"], strict=True)
    for a, b in (pair, pair[::-1])
}
SENTENCE_END = frozenset(".!?;:")
LINKS = word_set("and but or yet nor then")
SEES = word_set(  # after these, "her" and a plain verb is an object: saw her leave, let her go
    "see sees saw seen seeing watch watches watched watching hear hears heard hearing let lets letting make makes made "
    "making help helps helped helping have has had"
)
PLAIN_VERBS = word_set(
    "be become come cry do eat fall feel fight find get give go grow have keep laugh learn leave look lose love make "
    "move play put run say see seem shine sing smile speak stand stay suffer survive take talk tell think turn walk "
    "want win work write"
)
# After these, "her" is no determiner and "his" stands alone: nothing that it could belong to follows.
NO_NOUN = word_set(
    "some any no each another such "
    "a an the this that these those i you he she it we they me us them him my your our their and or but nor so than "
    "as if when while because since until although though unless whether where who whom which what how why to of in on "
    "at by for from with without about against between into onto through during before after above below under over "
    "up down out off away back again around along across behind beside near toward towards upon within is are was "
    "were be been being has have had does do did can could will would shall should may might must not n't too very "
    "either neither both all just only even still yet already here there now then once twice yesterday today tomorrow "
    "tonight anyway instead alone apart together aside forward home ever never always sometimes else "
    "anything something nothing everything anyone someone nobody everybody everyone more much enough as"
)


@dataclass(frozen=True)
class _Token:
    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        return self.text.lower().replace("’", "'")


class _Sentence:
    """A text as words with their places; changes are collected, and made at once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[_Token] = []
        for found in WORD.finditer(text):
            clitic = CLITIC.match(found[0])
            if clitic:  # he's: two words, written as one
                middle = found.start() + len(clitic[1])
                self.tokens += [_Token(clitic[1], found.start(), middle), _Token(clitic[2], middle, found.end())]
            else:
                self.tokens.append(_Token(found[0], found.start(), found.end()))
        self.words = [token.lower for token in self.tokens]
        self.changes: dict[int, str] = {}

    def word(self, place: int) -> str:
        return self.words[place] if 0 <= place < len(self.words) else ""

    def replace(self, place: int, word: str) -> None:
        self.changes[place] = _like(self.tokens[place].text, word)

    def hyphenated(self, place: int) -> bool:
        token = self.tokens[place]
        return "-" in (self.text[token.start - 1 : token.start], self.text[token.end : token.end + 1])

    def changed(self) -> str:
        parts, end = [], 0
        for place, token in enumerate(self.tokens):
            parts += [self.text[end : token.start], self.changes.get(place, token.text)]
            end = token.end
        return "".join(parts) + self.text[end:]


def swap_pronouns(text: str, target: str, *, source: str | None = None) -> str | None:
    """The same sentence with another pronoun: `target` is he, she or they.

    Args:
        source: the pronoun to replace; None: he or she, whichever the text has. "they" must be named, for a text does
            not say whether its "they" is one person.
    """
    sentence = _Sentence(text)
    present = {group for group in GROUPS if any(word in FORMS[group] for word in sentence.words)}
    if "themself" in sentence.words:
        return None
    found = present - {"they"} if source is None else {source} & present
    if len(found) != 1 or (source is None and present != found and target == "they"):
        return None
    group = found.pop()
    if source == "they" and len(present) > 1:
        return None
    if group == target or _names_or_nouns(sentence):
        return None
    return _replace_pronouns(sentence, group, lambda _: target)


def swap_gender(text: str, *, names: bool = False) -> str | None:
    """He for she and she for he, with husband and wife, actor and actress; `names`: Kate and Bob, too."""
    sentence = _Sentence(text)
    if _about_gender(sentence):
        return None
    nouns = [place for place, word in enumerate(sentence.words) if word in COUNTERPART]
    gendered = [place for place, word in enumerate(sentence.words) if word in FORMS["he"] or word in FORMS["she"]]
    named = [place for place, token in enumerate(sentence.tokens) if _is_name(token)]
    if (named and not names) or any(not _stands_alone(sentence, place) for place in named):
        return None
    if any(sentence.tokens[place].text not in NAME_COUNTERPART for place in named):
        return None
    titles = [place for place, word in enumerate(sentence.words) if word in ("mr", "ms", "mrs", "miss")]
    if any(sentence.words[place] not in TITLES for place in titles) or (titles and nouns):  # two people, perhaps
        return None
    if not nouns and not gendered and not named:
        return None
    for place in nouns:
        if sentence.hyphenated(place) or _may_be_title(sentence, place):
            return None
        sentence.replace(place, COUNTERPART[sentence.words[place]])
        if not _mend_article(sentence, place):
            return None
    for place in named:
        sentence.changes[place] = NAME_COUNTERPART[sentence.tokens[place].text]
    for place in titles:
        sentence.replace(place, TITLES[sentence.words[place]].lower())
    return _replace_pronouns(sentence, None, lambda group: {"he": "she", "she": "he"}[group])


def swap_name(text: str, name: str, other: str) -> str | None:
    """One first name for another wherever it stands; None where it does not, or has a surname beside it."""
    sentence = _Sentence(text)
    places = [place for place, token in enumerate(sentence.tokens) if token.text == name]
    if not places or not all(_stands_alone(sentence, place) for place in places):
        return None
    for place in places:
        sentence.changes[place] = other
    return sentence.changed()


def returns(text: str, swapped: str, *, source: str, target: str) -> bool:
    """Does the way back lead to the text? Where it does not, something was ambiguous."""
    return swap_pronouns(swapped, source, source=target) == text


def _replace_pronouns(sentence: _Sentence, only: str | None, target_of: Callable[[str], str]) -> str | None:
    """Every pronoun of the group `only` (None: of he and she) becomes the same form of its target."""
    sources = ("he", "she") if only is None else (only,)
    for place, word in enumerate(sentence.words):
        group = next((group for group in sources if word in FORMS[group]), None)
        if group is None:
            continue
        if sentence.hyphenated(place) or sentence.word(place - 1) in ("a", "an", "the"):  # a he-man, a she
            return None
        if _bracketed(sentence, place):
            return None
        role = _role(sentence, place, group)
        if role is None:
            return None
        target = target_of(group)
        if role == "reflexive" and target == "they" and sentence.word(place - 1) in ("even", "and", "or", "like", ","):
            return None  # the guests, or even himself: they would be the guests
        sentence.replace(place, FORMS[target][ROLES.index(role)])
        if role == "subject" and "they" in (group, target) and not _agree(sentence, place, to_plural=target == "they"):
            return None
    return sentence.changed()


def _bracketed(sentence: _Sentence, place: int) -> bool:
    """(t)his film, his (Nelson's) film: a bracket right beside a pronoun is an editor's, and breaks the sentence."""
    before = [sentence.word(place - distance) for distance in (1, 2)]
    after = [sentence.word(place + distance) for distance in (1, 2)]
    return before[0] in (")", "]") or "rrb" in before or after[0] in ("(", "[") or "lrb" in after


def _role(sentence: _Sentence, place: int, group: str) -> str | None:
    """Which form it is; None where it could be two."""
    word = sentence.words[place]
    forms = FORMS[group]
    possible = [role for role, form in zip(ROLES, forms, strict=True) if form == word]
    if len(possible) == 1:
        return possible[0]
    noun = _noun_follows(sentence, place)
    if noun is None:
        return None
    if word == "her":
        return "determiner" if noun else "object"
    return "determiner" if noun else "possessive"  # his


def _noun_follows(sentence: _Sentence, place: int) -> bool | None:
    """Does "her" or "his" belong to what comes next? None: saw her quickly, her silly, loud film."""
    following = sentence.word(place + 1)
    if not following or not (following[0].isalpha() or following in ('"', "`")):
        # A number can be owned: her 20 years, his '70s; a dash or a comma cannot.
        return following.isdigit() or (following == "'" and sentence.word(place + 2).isdigit())
    if following in NO_NOUN or following in ("'s", "n't"):
        return False
    if following in ("own", "most", "very"):
        return True
    plain = following in PLAIN_VERBS and sentence.word(place - 1) in SEES
    if following.endswith("ly") and not sentence.word(place + 2)[:1].isalpha():
        return None
    return not plain


def _agree(sentence: _Sentence, place: int, *, to_plural: bool) -> bool:
    """Give the verb of this subject the form of the other number; False: it is not sure which word it is."""
    auxiliaries = verbs.SINGULAR if to_plural else verbs.PLURAL
    following = place + 1
    while verbs.is_adverb(sentence.word(following)) or sentence.word(following) in verbs.NEGATIONS:
        following += 1
    word, before = sentence.word(following), sentence.word(place - 1)
    start = place - 1 if before != "n't" else place - 2  # is n't he
    inverted = sentence.word(start) in auxiliaries and not _finite(word, to_plural=to_plural)
    if inverted:
        opens = start == 0 or not sentence.words[start - 1][0].isalpha() or sentence.words[start - 1] in QUESTIONS
        if not opens:
            return False
        sentence.replace(start, auxiliaries[sentence.words[start]])
        return _nothing_coordinated(sentence, place, to_plural=to_plural, present=True)
    present = False
    if word in ("'s", "'re", "'ve") and following == place + 1:
        participle = sentence.word(following + 1)
        while verbs.is_adverb(participle) or participle in verbs.NEGATIONS:
            following += 1
            participle = sentence.word(following + 1)
        full = _full_form(word, participle)
        if full is None:
            return False
        contraction = {("is", True): "'re", ("has", True): "'ve", ("is", False): "'s", ("has", False): "'s"}
        sentence.changes[place + 1] = contraction[full, to_plural]
        present = True
    elif word in auxiliaries:
        sentence.replace(following, auxiliaries[word])
        present = word not in ("was", "were", "wasn't", "weren't")
    elif word in verbs.MODALS or verbs.is_past(word):
        if not to_plural and word in verbs.SAME_PAST:
            return False
    elif _finite(word, to_plural=to_plural):
        sentence.replace(following, verbs.plural_of(word) if to_plural else verbs.singular_of(word))
        present = True
    else:
        return False
    return _nothing_coordinated(sentence, following, to_plural=to_plural, present=present)


QUESTIONS = word_set("what who whom how why when where and but so or if which")


def _full_form(contraction: str, following: str) -> str | None:
    """What 's, 're or 've stands for; None where it may be either: he's finished."""
    if contraction != "'s":
        return "is" if contraction == "'re" else "has"
    if following in verbs.PARTICIPLES:
        return "has"
    return None if verbs.is_past(following) and following not in verbs.FEELINGS else "is"


def _finite(word: str, *, to_plural: bool) -> bool:
    """May this word, after the pronoun, be its verb in the present tense?"""
    if not word.isalpha() or word in NO_NOUN - {"are", "is", "were", "was", "have", "has", "do", "does"}:
        return False
    return verbs.is_third_person(word) if to_plural else not verbs.is_third_person(word) and not verbs.is_adverb(word)


def _nothing_coordinated(sentence: _Sentence, verb: int, *, to_plural: bool, present: bool) -> bool:
    """Is there no second verb of the same subject (he sings and dances) that would have to change, too?"""
    auxiliaries = verbs.SINGULAR if to_plural else verbs.PLURAL
    place = verb + 1
    while place < len(sentence.words) and sentence.words[place] not in SENTENCE_END:
        word, before = sentence.words[place], sentence.words[place - 1]
        back = place - 1
        while verbs.is_adverb(before) or before in verbs.NEGATIONS:
            back -= 1
            before = sentence.word(back)
        linked = before in LINKS or before == ","
        if linked and word in auxiliaries:
            return False
        if linked and present and before in LINKS and word.isalpha() and not _is_pronoun(word):
            if to_plural and verbs.is_third_person(word):
                return False
            if not to_plural and word in PLAIN_VERBS:
                return False
        place += 1
    return True


def _is_pronoun(word: str) -> bool:
    return any(word in forms for forms in FORMS.values())


def _is_name(token: _Token) -> bool:
    """A first name that we know; in a text without capitals, also one of the common others."""
    return token.text in NAME_COUNTERPART or token.lower in OTHER_NAMES or token.text.capitalize() in NAME_COUNTERPART


def _stands_alone(sentence: _Sentence, place: int) -> bool:
    """A first name with no surname beside it: a known person is not exchanged."""
    after = sentence.tokens[place + 1].text if place + 1 < len(sentence.tokens) else ""
    before = sentence.tokens[place - 1].text if place else ""
    capital_before = before[:1].isupper() and place > 1 and sentence.words[place - 2] not in SENTENCE_END
    return not after[:1].isupper() and not capital_before and not sentence.hyphenated(place)


def _about_gender(sentence: _Sentence) -> bool:
    return any(word in ABOUT_GENDER for word in sentence.words)


def _names_or_nouns(sentence: _Sentence) -> bool:
    """Something else in the sentence says the gender, and would contradict the new pronoun."""
    return (
        _about_gender(sentence)
        or any(word in COUNTERPART or word in ("mr", "mrs", "ms", "miss") for word in sentence.words)
        or any(_is_name(token) for token in sentence.tokens)
    )


def _may_be_title(sentence: _Sentence, place: int) -> bool:
    """Men in Black, The Good Girl: a noun with a capital letter inside a sentence. A text without capitals does not
    show titles: there, only "a man", "a brave young woman", "these boys" are surely people."""
    token = sentence.tokens[place]
    if sentence.text != sentence.text.lower():
        return token.text[0].isupper() and place > 0 and sentence.words[place - 1] not in SENTENCE_END
    before = sentence.words[max(0, place - 4) : place]
    return not any(word in ("a", "an", "this", "these", "whose", "every") for word in before) or any(
        not word.isalpha() for word in before[-1:]
    )


def _mend_article(sentence: _Sentence, place: int) -> bool:
    """An actress, a waiter: the article before a noun that begins otherwise now."""
    before = sentence.word(place - 1)
    if before in ("a", "an"):
        vowel = sentence.changes[place][0].lower() in "aeiou"
        sentence.replace(place - 1, "an" if vowel else "a")
    return True


def _like(old: str, new: str) -> str:
    """Written as the old word was: he, He, HE."""
    if old.isupper() and len(old) > 1:
        return new.upper()
    return new[0].upper() + new[1:] if old[:1].isupper() else new
