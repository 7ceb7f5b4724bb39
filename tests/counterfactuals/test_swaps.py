"""Swaps are good English or are not made; and the way back leads to the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketbert.counterfactuals import GROUPS, swap_gender, swap_pronouns
from pocketbert.counterfactuals.swaps import swap_name
from pocketbert.counterfactuals.templates import templates
from pocketbert.counterfactuals.verbs import SAME_PAST, plural_of, singular_of
from pocketbert.counterfactuals.words import KINSHIP, NAMES, NEUTRAL_NAMES, NOUNS, OCCUPATIONS


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("He is an amazing employee.", "they", "They are an amazing employee."),
        ("He is an amazing employee.", "she", "She is an amazing employee."),
        ("I saw her yesterday.", "he", "I saw him yesterday."),
        ("I saw her bag yesterday.", "he", "I saw his bag yesterday."),
        ("We let her go home.", "they", "We let them go home."),
        ("The idea was his.", "she", "The idea was hers."),
        ("The idea was his.", "they", "The idea was theirs."),
        ("She taught herself to sing.", "they", "They taught themselves to sing."),
        ("he 's been here and he 's tired", "they", "they 've been here and they 're tired"),
        ("He doesn't know.", "they", "They don't know."),
        ("Does he know?", "they", "Do they know?"),
        ("She was late because she always tries too hard.", "they", "They were late because they always try too hard."),
        ("HE LEFT", "she", "SHE LEFT"),
        ("I gave her 20 years.", "he", "I gave his 20 years."),
    ],
)
def test_case_agreement_and_form_follow_the_pronoun(text, target, expected):
    assert swap_pronouns(text, target) == expected


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("The film is long.", "she"),  # nobody is in it
        ("He saw her.", "they"),  # two people
        ("Tom said that he was tired.", "she"),  # the name says a gender
        ("My husband said that he was tired.", "she"),
        ("he is the scariest guy of the summer", "she"),
        ("(t)his film is long", "she"),
        ("-lrb- t -rrb- his slop is loud", "she"),
        ("his -lrb- nelson 's -rrb- screenplay", "she"),
        ("holm does his sly , intricate magic", "she"),  # may be an adverb
        ("He sings and dances.", "they"),  # a second verb
        ("He's finished.", "they"),  # is or has
        ("A he-man won.", "she"),
        ("the guests , or even himself , left", "they"),
    ],
)
def test_what_might_not_be_good_english_is_not_made(text, target):
    assert swap_pronouns(text, target) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My husband is an actor.", "My wife is an actress."),
        ("A waiter brought his father some tea.", "A waitress brought her mother some tea."),
        ("Ms. Hill lost her keys.", "Mr. Hill lost his keys."),
        ("this is a film about a brave young man", "this is a film about a brave young woman"),
        ("men in black is a film", None),  # a title
        ("I liked The Good Girl.", None),
        ("a sexist film about a man", None),
        ("Mrs. Hill is here.", None),  # Mr. has no such other side
    ],
)
def test_nouns_and_pronouns_change_together(text, expected):
    assert swap_gender(text) == expected


def test_names_are_exchanged_only_where_they_stand_alone():
    assert swap_gender("Kate lost her keys.", names=True) == "Bob lost his keys."
    assert swap_gender("Kate lost her keys.") is None
    assert swap_gender("Kate Winslet lost her keys.", names=True) is None
    assert swap_name("We met Kate, and Kate left.", "Kate", "Emily") == "We met Emily, and Emily left."
    assert swap_name("We met Kate Hill.", "Kate", "Emily") is None


people = st.sampled_from(
    [f"the {one}" for one, _ in OCCUPATIONS] + [*NEUTRAL_NAMES] + [f"a {neither}" for _, _, neither in KINSHIP.values()]
)
sentences = st.sampled_from([one for pair in (False, True) for one in templates(pair=pair, pronouns=True)])


@given(sentences, people, st.permutations(GROUPS))
def test_there_and_back_is_the_text_where_a_swap_can_be_inverted(template, person, groups):
    source, target = groups[:2]
    for text, expected in zip(template.render(person, source), template.render(person, target), strict=True):
        swapped = swap_pronouns(text, target, source=source)
        if text == expected:  # no pronoun in it
            assert swapped is None
        elif swapped is not None:
            assert swapped == expected
            back = swap_pronouns(swapped, source, source=target)
            same = any(word in SAME_PAST for word in text.lower().split())  # they hurt: he hurt, or he hurts?
            assert back == text or (back is None and same and target == "they")


def test_nearly_every_sentence_of_our_templates_can_be_swapped_by_rule():
    """So the property above is about something."""
    asked = done = 0
    for template in (*templates(pair=False, pronouns=True), *templates(pair=True, pronouns=True)):
        for text, other in zip(template.render("the nurse", "he"), template.render("the nurse", "they"), strict=True):
            asked += text != other
            done += text != other and swap_pronouns(text, "they") == other
    assert asked > 80
    assert done > 0.9 * asked


@given(st.sampled_from([word for pair in NOUNS for word in pair]), st.sampled_from(["a", "this"]))
def test_nouns_there_and_back(noun, article):
    text = f"{article} {noun} left early"
    swapped = swap_gender(text)
    assert swapped is not None
    assert swap_gender(swapped).split()[1:] == text.split()[1:]


@pytest.mark.parametrize(("one", "several"), [("likes", "like"), ("tries", "try"), ("watches", "watch"), ("is", "are")])
def test_verbs(one, several):
    assert plural_of(one) == several
    assert singular_of(several) == one


def test_every_origin_has_as_many_names_and_none_is_in_two_lists():
    lists = [names for genders in NAMES.values() for names in genders.values()]
    assert len({len(names) for names in lists}) == 1
    flat = [name for names in lists for name in names]
    assert len(flat) == len(set(flat))


def test_there_are_enough_templates_and_the_reports_probes_are_among_them():
    assert len(templates(pair=False, pronouns=True)) >= 40
    assert len(templates(pair=True, pronouns=True)) >= 40
    first = [template.render("the doctor", "she") for template in templates(pair=True, pronouns=True)]
    assert any(two == "She is prescribing medicine." for _, two in first)
    assert any("an amazing employee" in template.texts[0] for template in templates(pair=False, pronouns=True))
