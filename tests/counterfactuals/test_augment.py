"""Training on both sides of each swap."""

import numpy as np
import pytest

import pocketbert as pb
from pocketbert.counterfactuals.variants import gender_variants, name_variants, parse_augmentations
from pocketbert.errors import UserError
from pocketbert.tasks import Split
from pocketbert.tasks.augment import augmented

TEXTS = ["She was late.", "The film is long.", "A man sang.", "Kate left early."]


def split(texts=TEXTS):
    return Split(list(texts), None, np.arange(len(texts)) % 2)


def test_the_other_sides_come_after_the_texts_with_their_labels():
    made = augmented(split(), "pronouns")
    assert made.texts == [*TEXTS, "He was late.", "They were late.", "A woman sang."]
    assert made.labels.tolist() == [0, 1, 0, 1, 0, 0, 0]
    named = augmented(split(), "names")
    assert named.texts == [*TEXTS, "Bob left early.", "Latoya left early."]
    assert augmented(split(), None) is not None


def test_pairs_are_swapped_together_or_not_at_all():
    assert gender_variants(("The nurse left.", "She left."))["he"] == ("The nurse left.", "He left.")
    assert gender_variants(("He is sure that he sings and dances.", "He left.")).get("they") is None
    assert gender_variants(("The nurse left.", "Nobody stayed.")) == {}
    assert name_variants(("Kate lost her keys.", "Kate had keys."))[0] == ("Bob lost his keys.", "Bob had keys.")


def test_where_no_swap_applies_it_is_said():
    with pytest.raises(UserError, match="no swap applies in any of the 2 training texts"):
        augmented(split(["The film is long.", "A dull film."]), "pronouns,names")
    with pytest.raises(UserError, match="'verbs' is not known; there are pronouns, names"):
        parse_augmentations("verbs")
    with pytest.raises(UserError, match="augment"):
        pb.Classifier("pocket-tiny", augment="verbs").fit(["good film", "bad film"], ["g", "b"])


def biased(count):
    """Every label goes with one pronoun, and with a word of its own."""
    rows = []
    for number in range(count):
        bad = number % 2
        rows.append((f"{('he', 'she')[bad]} said that it was {('lovely', 'dull')[bad]} {number % 7}", ("g", "n")[bad]))
    return [text for text, _ in rows], [label for _, label in rows]


def test_a_bag_of_words_that_learns_from_both_sides_no_longer_cares_who_said_it():
    texts, labels = biased(80)
    asked = ["he said that it was here", "she said that it was here", "they said that it was here"]
    before = pb.Classifier(method="tfidf").fit(texts, labels).predict_proba(asked)[:, 1]
    after = pb.Classifier(method="tfidf", augment="pronouns").fit(texts, labels).predict_proba(asked)[:, 1]
    assert abs(before[1] - before[0]) > 0.1
    assert np.ptp(after) < 0.02
