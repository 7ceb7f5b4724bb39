"""Agreement: "he is, he likes" and "they are, they like"; and which words say that a verb needs no change."""

from pocketbert.counterfactuals.words import word_set

SINGULAR = {  # auxiliaries of he and she, and what they takes instead
    "is": "are", "was": "were", "has": "have", "does": "do",
    "isn't": "aren't", "wasn't": "weren't", "hasn't": "haven't", "doesn't": "don't",
}  # fmt: skip
PLURAL = {plural: singular for singular, plural in SINGULAR.items()}
MODALS = word_set(
    "can could will would shall should may might must did had can't cannot couldn't won't wouldn't shan't shouldn't "
    "mightn't mustn't didn't hadn't 'll 'd ’ll ’d ca wo"
)
NEGATIONS = frozenset({"n't", "not", "never"})
ADVERBS = word_set(
    "always never often sometimes usually just also still already now then ever even only soon once almost hardly "
    "merely not rather quite too again perhaps maybe first alone both finally really clearly simply actually"
)
PAST = word_set(  # of irregular verbs; also those whose past is their base: after "he" it is past
    "ate beat became began bent bet bit blew bought bred broke brought built burst came cast caught chose clung cost "
    "crept cut dealt dove drank drew drove dug fed fell felt fled flew forgave forgot fought found froze gave got grew "
    "ground heard held hid hit hung hurt kept knew laid lay led left lent let lit lost made meant met overcame paid "
    "put quit ran rang read rose sang sank sat saw sent set shook shone shot shut slept slid sold sought spent spoke "
    "sprang spun stole stood stuck struck swam swore swung taught thought threw told took tore understood "
    "undertook said upset wept withdrew woke won wore wound wrote went"
)
SAME_PAST = word_set("beat bet burst cast cost cut hit hurt let put quit read set shut upset")
PARTICIPLES = word_set("been had got gotten done gone become seen made taken given known come")
FEELINGS = word_set(  # they look like a past and are adjectives: he's tired is "he is tired"
    "tired bored excited worried scared pleased delighted interested surprised disappointed married gifted talented"
)
NOT_VERBS = word_set(  # they end in s, and are no verb after "he"
    "always sometimes perhaps besides nevertheless thus plus less unless across us its his yes this as towards "
    "afterwards nowadays overseas regardless"
)
KEEP_SS = ("sses", "shes", "ches", "xes", "zzes", "oes")
OWN_BASE = {"focuses": "focus", "quizzes": "quiz", "dies": "die", "lies": "lie", "ties": "tie", "vies": "vie"}
OWN_THIRD = {base: third for third, base in OWN_BASE.items()} | {"have": "has", "be": "is"}


def is_adverb(word: str) -> bool:
    return word in ADVERBS or (word.endswith("ly") and len(word) > 4 and word not in ("reply", "rely", "apply"))


def is_past(word: str) -> bool:
    return word in PAST or (word.endswith("ed") and len(word) > 3 and word not in ("need", "feed", "seed", "bleed"))


def is_third_person(word: str) -> bool:
    """`likes`: a verb with the s of he and she, if it stands where a verb must be."""
    return len(word) > 2 and word.endswith("s") and not word.endswith("ss") and word not in NOT_VERBS


def plural_of(verb: str) -> str:
    """What they does: `likes` → `like`, `tries` → `try`, `watches` → `watch`."""
    if verb in SINGULAR:
        return SINGULAR[verb]
    if verb in OWN_BASE:
        return OWN_BASE[verb]
    if verb.endswith("ies"):
        return f"{verb[:-3]}y"
    return verb[:-2] if verb.endswith(KEEP_SS) else verb[:-1]


def singular_of(verb: str) -> str:
    """What he or she does: `like` → `likes`, `try` → `tries`, `watch` → `watches`."""
    if verb in PLURAL:
        return PLURAL[verb]
    if verb in OWN_THIRD:
        return OWN_THIRD[verb]
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else f"{verb}s"
