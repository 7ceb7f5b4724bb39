"""Texts that a vocabulary does not know are noticed; English that is short, loud, misspelt or full of signs is not."""

import random
from itertools import pairwise

import numpy as np
import pytest

from pocketbert.loading import load_tokenizer
from pocketbert.tasks import Split, Task, check_task
from pocketbert.tokenizer import Tokenizer

ENGLISH = [
    "The waiter was friendly, but our soup arrived cold and far too salty.",
    "I bought this charger in spring and it still works like a new one.",
    "Never again: the room smelled of smoke and the window would not open.",
    "A clever little thriller that keeps you guessing until the last scene.",
    "Delivery took three weeks although the shop had promised two days.",
    "My daughter loves the puzzle and has finished it twice already.",
    "The update deleted my notes, and support has not answered since Monday.",
    "Good value for the price, the fabric is soft and the colour is right.",
    "Long queues at the entrance, yet the exhibition was worth the wait.",
    "The second half drags, and the ending makes no sense at all.",
    "Please cancel my subscription and refund the last payment.",
    "Great screen, poor battery, and the keyboard feels rather cheap.",
]
GERMAN = [
    "Der Kellner war freundlich, aber unsere Suppe kam kalt und viel zu salzig.",
    "Ich habe das Ladegerät im Frühling gekauft, und es funktioniert noch immer.",
    "Nie wieder: das Zimmer roch nach Rauch, und das Fenster ging nicht auf.",
    "Ein kluger kleiner Krimi, der bis zur letzten Szene spannend bleibt.",
    "Die Lieferung dauerte drei Wochen, obwohl zwei Tage versprochen waren.",
    "Meine Tochter liebt das Puzzle und hat es schon zweimal gelegt.",
    "Das Update hat meine Notizen gelöscht, und der Support antwortet nicht.",
    "Gutes Preis-Leistungs-Verhältnis, der Stoff ist weich und die Farbe stimmt.",
    "Lange Schlangen am Eingang, doch die Ausstellung war es wert.",
    "Die zweite Hälfte zieht sich, und das Ende ergibt keinen Sinn.",
    "Bitte kündigen Sie mein Abonnement und erstatten Sie die Zahlung.",
    "Großartiger Bildschirm, schwacher Akku, billige Tastatur.",
]
BURMESE = [
    "ဒီရုပ်ရှင်က အရမ်းကောင်းတယ်။",
    "စာအုပ်က ပျင်းစရာကောင်းတယ်။",
    "အစားအစာက အေးနေပြီး ဝန်ဆောင်မှု နှေးတယ်။",
    "ကျွန်တော် ဒီဆိုင်ကို ထပ်မလာတော့ဘူး။",
    "ပစ္စည်းက မြန်မြန်ရောက်တယ်။",
    "ဇာတ်လမ်းက ရှည်လွန်းတယ်။",
    "ဟိုတယ်အခန်းက သန့်ရှင်းပြီး ဝန်ထမ်းတွေ ဖော်ရွေတယ်။",
    "ဖုန်းဘက်ထရီက မြန်မြန်ကုန်တယ်။",
]
MIXED = [*ENGLISH, *(f"{one} {other}" for one, other in pairwise(ENGLISH)), *GERMAN]


def misspelt(text: str, draw: random.Random) -> str:
    """A third of the longer words with two letters exchanged."""

    def worse(word: str) -> str:
        if len(word) < 5 or draw.random() > 0.35:
            return word
        place = draw.randrange(1, len(word) - 2)
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]

    return " ".join(map(worse, text.split()))


def warned(texts: list[str], tokenizer: Tokenizer) -> list[str]:
    labels = np.arange(len(texts), dtype=np.int64) % 2
    found = check_task(Task("made", ("a", "b"), {"train": Split(texts, None, labels)}, pair=False), tokenizer)
    return [warning for warning in found.warnings if "vocabulary" in warning]


@pytest.fixture(scope="module", params=["pocket-tiny", "pocket-mini", "minilm-l6"])
def tokenizer(request):
    from pocketbert.catalog import is_available

    if not is_available(request.param):
        pytest.skip(f"{request.param} is not installed")
    return load_tokenizer(request.param)


@pytest.mark.parametrize("texts", [GERMAN, BURMESE, MIXED], ids=["German", "Burmese", "a third German"])
def test_a_language_that_the_vocabulary_does_not_know_is_said_with_what_to_do(texts, tokenizer) -> None:
    (said,) = warned(texts, tokenizer)
    assert said.startswith("train: ")
    assert "--models" in said
    assert "scratch" in said
    assert "tfidf" in said


@pytest.mark.parametrize(
    "change",
    [
        str,
        str.upper,
        lambda text: " ".join(text.split()[:3]),
        lambda text: misspelt(text, random.Random(len(text))),
        lambda text: f"{text} 😀😂👍🔥 !!! ❤️",
        lambda text: f"@anna_b {text.lower()} https://example.org/xYz12 #bestfilmever #nofilter",
        lambda text: f"{text} (12.50 EUR, 2024-05-01, order no. 4711-XK)",
        lambda text: f"“{text}” – naïve café owner, résumé attached",
    ],
    ids=["plain", "capitals", "short", "misspelt", "emoji", "tweet", "numbers", "accents"],
)
def test_english_is_never_taken_for_another_language(change, tokenizer) -> None:
    assert warned([change(text) for text in ENGLISH], tokenizer) == []


def test_a_vocabulary_learned_from_the_texts_knows_them() -> None:
    assert warned(GERMAN, Tokenizer.learn(GERMAN * 5, size=400)) == []


def test_real_english_is_known_and_real_german_is_not(data, tokenizer) -> None:
    import gzip

    for language, expected in (("en", False), ("de", True)):
        with gzip.open(data / "multi30k" / f"val.{language}.gz", "rt", encoding="utf-8") as file:
            assert bool(warned([line.strip() for line in file], tokenizer)) is expected
    lines = (data / "sst2_classic" / "harvardnlp_stsa.binary.train").read_text("utf-8", "replace").splitlines()
    assert warned([line.partition(" ")[2] for line in lines], tokenizer) == []
