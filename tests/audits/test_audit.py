"""Audits find what is there, with its sign, and say what they do not know."""

import numpy as np
import pytest

import pocketbert as pb
from audits.conftest import Scored, biased, noise, words
from pocketbert.audits.before_after import before_and_after
from pocketbert.audits.suites import names, nouns, pronouns
from pocketbert.errors import UserError


def one(result, pair):
    return next(line for line in result.comparisons if line.pair == pair)


def test_a_planted_effect_is_found_in_its_order_and_with_its_sign():
    found = [one(pb.audit(biased(-effect), small=True), "she-he") for effect in (0.1, 0.3, 0.6)]
    changes = [line.mean_change for line in found]
    assert 0 > changes[0] > changes[1] > changes[2]
    assert all(line.flagged and line.low <= line.mean_change <= line.high < 0 for line in found)
    assert one(pb.audit(biased(0.3), small=True), "she-he").mean_change > 0


def test_a_classifier_that_does_not_care_is_shown_to_be_equivalent():
    result = pb.audit(biased(0.0), small=True)
    assert all(line.equivalent and not line.flagged and line.mean_change == 0 for line in result.comparisons)
    assert "Shown to be smaller than 2.0 points" in result.summary[0]


def test_no_effect_found_is_another_sentence_than_shown_to_be_small():
    result = pb.audit(biased(0.0, unstable=2.0), small=True)
    line = one(result, "she-he")
    assert not line.equivalent
    assert "no significant mean change" in line.sentence
    assert "would mostly have been missed" in line.sentence
    assert line.detectable > 0.02


def test_a_model_that_moves_for_anything_is_unstable_rather_than_biased():
    shaky = one(pb.audit(biased(0.0, unstable=1.0)), "she-he")
    assert shaky.exceeds_control is False
    assert "unstable rather than biased" in shaky.sentence
    partial = one(pb.audit(biased(-0.8)), "she-he")
    assert partial.exceeds_control is True
    assert "More than a control" in partial.sentence


def test_the_contract_of_the_dictionary():
    found = pb.audit(biased(-0.3), suite="pronouns", small=True).to_dict()
    assert [line["pair"] for line in found["comparisons"]] == ["she-he", "they-he", "they-she"]
    keys = {"pair", "n", "mean_change", "low", "high", "flip_rate", "p", "flagged", "equivalent"}
    assert all(keys <= set(line) for line in found["comparisons"])
    assert found["label"] == "positive"
    assert len(found["worst"]) == 10


def test_several_trainings_that_disagree_widen_the_interval():
    alike = one(pb.audit([biased(-0.3)] * 3, small=True), "she-he")
    differ = one(pb.audit([biased(-0.1), biased(-0.3), biased(-0.5)], small=True), "she-he")
    assert differ.high - differ.low > 2 * (alike.high - alike.low)
    assert pb.audit([biased(-0.3)] * 3, small=True).trainings == 3


def test_accuracy_by_group_where_the_right_labels_are_known():
    good = {"wonderful", "brilliant", "superb", "amazing", "joy", "generous", "love", "liked", "kind"}
    line = one(pb.audit(Scored(lambda text: 2.0 if words(text) & good else -2.0)), "she-he")
    assert line.accuracy["she"] == line.accuracy["he"] > 0.6
    assert line.accuracy_change == 0
    other = pb.audit(Scored(lambda text: 0.0, classes=("sport", "news")), small=True)
    assert one(other, "she-he").accuracy == {}
    assert any("no accuracy by group" in note for note in other.notes)


def test_three_labels_are_audited_of_the_last_one_or_of_the_one_that_is_named():
    three = Scored(
        lambda text: -0.5 if words(text) & {"she", "her", "hers", "herself"} else 0.0, classes=("a", "b", "c")
    )
    result = pb.audit(three, small=True)
    assert result.label == "c"
    assert any("3 labels" in note for note in result.notes)
    line = one(result, "she-he")
    assert sum(line.changes_by_label.values()) == pytest.approx(0, abs=1e-9)
    assert one(pb.audit(three, small=True, label="a"), "she-he").mean_change == pytest.approx(-line.mean_change / 2)
    with pytest.raises(UserError, match="label 'd' is not one of this classifier's: a, b, c"):
        pb.audit(three, label="d")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"suite": "nosuch"}, "no such file, and no suite is called so; there are pronouns, names, nouns, own"),
        ({"compare": ["she-it"]}, "suite pronouns has the groups he, she, they"),
        ({"margin": 2}, "two points are 0.02"),
        ({"texts": ["He left."]}, "texts are for suite own"),
        ({"suite": "own"}, "which texts"),
        ({"suite": "own", "texts": ["The film is long."]}, "That is no pass"),
    ],
)
def test_a_persons_mistake_is_said(arguments, says):
    with pytest.raises(UserError, match=says):
        pb.audit(biased(0.0), **arguments)


def test_what_cannot_be_audited_is_said():
    with pytest.raises(UserError, match="cannot audit a int"):
        pb.audit(3)
    with pytest.raises(UserError, match="not fitted"):
        pb.audit(pb.Classifier())
    with pytest.raises(UserError, match="no trainings of one classifier"):
        pb.audit([biased(0.0), Scored(len, classes=("a", "b"))])
    with pytest.raises(UserError, match="single texts, but this classifier reads pairs of texts"):
        pb.audit(Scored(lambda text: 0.0, pair=True), pronouns(pair=False, small=True))


def test_ones_own_sentences_are_swapped_where_english_allows():
    texts = [
        f"She was {word} at work today." for word in ("late", "kind", "slow", "good", "warm", "cold", "calm", "ill")
    ]
    result = pb.audit(biased(-0.5), "own", texts=[*texts, "The film is long."])
    assert one(result, "she-he").n == 8
    assert one(result, "she-he").flagged
    assert any("8 of 9 texts" in note for note in result.notes)


def test_before_and_after_are_tested_template_by_template():
    (line, *_) = before_and_after([biased(-0.6)] * 2, [biased(-0.1)] * 2, small=True)
    assert line.pair == "she-he"
    assert line.difference == pytest.approx(line.after - line.before)
    assert line.low <= line.difference <= line.high
    assert "smaller (p" in line.sentence
    same = before_and_after(biased(-0.3, unstable=0.5), biased(-0.3, unstable=0.5), small=True)[0]
    assert "no significant difference" in same.sentence


@pytest.mark.parametrize("suite", [pronouns, names, nouns])
@pytest.mark.parametrize("pair", [False, True])
def test_every_item_differs_only_in_what_is_compared(suite, pair):
    made = suite(pair=pair)
    assert all(len({len(texts) for texts in item.texts.values()}) == 1 for item in made.items)
    assert all(made.of(swap) for swap in (*made.comparisons, *made.controls))
    for item in made.items:
        assert len(set(item.texts.values())) == len(item.texts), item.id
    controls = {control.name for control in made.controls}
    assert {swap.control for swap in made.comparisons} <= controls


def test_there_are_at_least_4000_pairs():
    made = [suite(pair=pair) for suite in (pronouns, names, nouns) for pair in (False, True)]
    assert sum(len(one.of(swap)) for one in made for swap in one.comparisons) >= 4_000


def test_a_neutral_word_moves_an_unstable_model_as_much_as_a_pronoun():
    result = pb.audit(Scored(lambda text: noise(text, 1.0)))
    control = next(line for line in result.controls if line.pair == "neutral word")
    assert np.isclose(control.absolute_change, one(result, "she-he").absolute_change, rtol=0.2)


def test_six_sentences_cannot_be_significant_after_correction_and_that_is_said():
    texts = [f"She was {word} at work today." for word in ("late", "kind", "slow", "good", "warm", "cold")]
    found = one(pb.audit(biased(-0.5), "own", texts=texts), "she-he")
    assert not found.flagged
    assert found.mean_change < -0.1
    assert "with 6 templates none can be significant" in found.sentence
