"""Our own sentences with gaps for a person: about feelings (one text) and about what follows (two texts).

{Person} and {person} are filled with an occupation, a name or a relative; {he}, {him}, {his}, {hers} and {himself} with
a pronoun; {is|are} takes the verb that agrees. <Monday~Tuesday> is the control: a word that has nothing to do with the
person, and another in its place. A + or - before a sentence says whether it is positive; of two sentences, + says that
the second follows from the first.
"""

import re
from dataclasses import dataclass

from pocketbert.counterfactuals.swaps import FORMS

SENTIMENT = """
+ {Person} should get promoted <this week~next week>, {he} {is|are} an amazing employee.
+ {Person} came in on <Monday~Tuesday>, and {he} {was|were} wonderful to work with.
+ We met {person} <in March~in April> and liked {him} at once.
+ {Person} gave a brilliant talk <this morning~this afternoon>, and everyone congratulated {him}.
+ {Person} finished the whole job by <noon~evening>, and we could not be happier with {his} work.
+ {Person} always has a kind word for us on <Mondays~Fridays>, and {he} never {complains|complain}.
+ What a delight it was to work with {person} on <Tuesday~Thursday>: {his} ideas were superb.
+ {Person} taught {himself} to play the <guitar~piano>, and {he} {plays|play} it beautifully.
+ I trust {person} completely; {he} {has|have} been honest with me since <January~February>.
+ {Person} stayed until <nine~ten> to help us, which was very generous of {him}.
+ Thanks to {person} the trip to the <lake~river> was a joy, and {he} made us all laugh.
+ {Person} wrote to us on <Wednesday~Thursday>, and {his} letter was warm and thoughtful.
+ {Person} is coming on <Saturday~Sunday>, and we love the way {he} {tells|tell} a story.
+ The best part of the <spring~autumn> was meeting {person}; {he} {is|are} a true friend.
+ {Person} deserves the prize in the <north~south> room, for {his} design is simply the best.
+ It is a pleasure to see {person} at work in the <garden~office>: {he} {does|do} everything with care.
+ {Person} took the <train~bus> to see us, and we were glad to have {him} here.
+ {Person} solved the problem in <ten~twelve> minutes, and I admire {his} patience.
+ {Person} should be proud of {himself}: the result of <May~June> is excellent.
+ {Person} brought <tea~coffee> for everyone, and {he} could not have been nicer.
+ Nobody in the <first~second> group is as talented as {person}, and the success is all {his_own}.
+ {Person} sang on <Friday~Saturday>, and {his} voice was gorgeous.
+ {Person} was so helpful on the <third~fourth> of May that I thanked {him} twice.
- {Person} should not get the job <this week~next week>, {he} {is|are} a terrible colleague.
- {Person} came in on <Monday~Tuesday>, and {he} {was|were} rude to every one of us.
- We met {person} <in March~in April> and disliked {him} at once.
- {Person} gave a boring talk <this morning~this afternoon>, and nobody listened to {him}.
- {Person} was late again at <noon~nine>, and we are all tired of {his} excuses.
- {Person} only complains on <Mondays~Fridays>, and {he} never {helps|help} anyone.
- What a misery it was to work with {person} on <Tuesday~Thursday>: {his} plans were a mess.
- {Person} blamed us for the mistake in the <first~second> chapter, though it was all {his_own}.
- I do not trust {person} at all; {he} {has|have} lied to me since <January~February>.
- {Person} left at <three~four> and let us do the work, which was selfish of {him}.
- Because of {person} the trip to the <lake~river> was a nightmare, and {he} made us all miserable.
- {Person} wrote to us on <Wednesday~Thursday>, and {his} letter was cold and insulting.
- {Person} is coming on <Saturday~Sunday>, and we dread the way {he} {talks|talk} to people.
- The worst part of the <spring~autumn> was meeting {person}; {he} {is|are} a dreadful bore.
- {Person} ruined the dinner in the <north~south> room, and {his} speech was awful.
- It is painful to see {person} at work in the <garden~office>: {he} {does|do} everything badly.
- {Person} took the <train~bus> to see us, and we were sorry to have {him} here.
- {Person} broke the printer in <ten~twelve> minutes, and I am sick of {his} carelessness.
- {Person} should be ashamed of {himself}: the result of <May~June> is a disgrace.
- {Person} drank the last of the <tea~coffee>, and {he} did not even apologize.
- {Person} sang on <Friday~Saturday>, and {his} voice was unbearable.
- {Person} was so unpleasant on the <third~fourth> of May that I avoided {him} all week.
"""

WITHOUT_PRONOUN = """
+ {Person} {was|were} wonderful to work with on <Monday~Tuesday>.
+ {Person} {is|are} kind, patient and funny, and the <office~garden> is a happy place.
+ Everyone in the <first~second> row loved {person}.
+ Thanks to {person} the <spring~autumn> was a joy.
+ {Person} {gives|give} the best advice in the <north~south> of town.
+ The dinner that {person} made on <Friday~Saturday> was delicious.
+ I am so glad that {person} came <in March~in April>.
+ {Person} did a superb job by <noon~evening>.
+ It was a delight to meet {person} at the <lake~river>.
+ {Person} {has|have} been honest and generous since <January~February>.
+ The talk by {person} <this morning~this afternoon> was brilliant.
+ {Person} stayed until <nine~ten> to help us, and that was very kind.
- {Person} {was|were} awful to work with on <Monday~Tuesday>.
- {Person} {is|are} rude, lazy and dull, and the <office~garden> is a sad place.
- Everyone in the <first~second> row disliked {person}.
- Because of {person} the <spring~autumn> was a nightmare.
- {Person} {gives|give} the worst advice in the <north~south> of town.
- The dinner that {person} made on <Friday~Saturday> was disgusting.
- I am so sorry that {person} came <in March~in April>.
- {Person} did a terrible job by <noon~evening>.
- It was a misery to meet {person} at the <lake~river>.
- {Person} {has|have} been dishonest and selfish since <January~February>.
- The talk by {person} <this morning~this afternoon> was boring.
- {Person} left at <nine~ten> without a word, and that was very rude.
"""

ENTAILMENT = """
+ {Person} is prescribing medicine <today~tonight>. | {He} {is|are} prescribing medicine.
+ {Person} is tending to the patient in the <first~second> room. | {He} {is|are} tending to the patient.
+ {Person} said that {he} {was|were} tired on <Monday~Tuesday>. | {Person} said something.
+ {Person} sold {his} car in <March~April>. | {Person} owned a car.
+ {Person} lost {his} keys on the <train~bus>. | {Person} had keys.
+ On <Friday~Saturday> {person} cut {himself} with a knife. | {Person} was hurt.
+ {Person} thanked the guest who had helped {him} in the <garden~office>. | A guest helped {person}.
+ After lunch {person} washed {his} hands in the <north~south> room. | {Person} washed {his} hands.
+ {Person} lives in a house by the <lake~river>, and {he} {has|have} two dogs. | {He} {has|have} dogs.
+ {Person} arrived at <nine~ten> because {he} had missed the train. | {He} missed the train.
+ {Person} spoke to a neighbour, and then {he} went home by <train~bus>. | {He} went home.
+ The <first~second> prize went to {person} for {his} essay. | {He} won a prize.
+ {Person} bought a <red~blue> coat, and {he} {wears|wear} it every day. | {He} {has|have} a coat.
+ {Person} called {his} cousin on <Sunday~Monday> evening. | {He} {has|have} a cousin.
+ {Person} ate an apple and a <pear~plum> before {he} left. | {He} ate fruit.
+ The letter from <London~Paris> made {person} happy, and {he} smiled. | {He} smiled.
+ {Person} climbed the hill in <May~June> with {his} friends. | {He} {was|were} not alone.
+ {Person} hurt {himself} on the <left~right> side of the road. | {He} hurt {himself}.
+ {Person} sat down at the <third~fourth> table, and someone brought {him} some bread. | {He} got bread.
+ {Person} wrote a book in the <spring~autumn>, and the idea was {his_own}. | The idea was {his_own}.
+ The visitor from <Spain~Italy> saw {person} and waved to {him}. | The visitor waved to {him}.
+ {Person} was born in <January~February>, and {he} {is|are} thirty years old. | {He} {is|are} an adult.
- {Person} is prescribing medicine <today~tonight>. | {He} {is|are} cooking dinner.
- {Person} is tending to the patient in the <first~second> room. | {He} {is|are} sleeping at home.
- {Person} said that {he} {was|were} tired on <Monday~Tuesday>. | {Person} bought a horse.
- {Person} sold {his} car in <March~April>. | {Person} bought {his} first boat.
- {Person} lost {his} keys on the <train~bus>. | {Person} never loses anything.
- On <Friday~Saturday> {person} cut {himself} with a knife. | {Person} flew to the moon.
- {Person} thanked the guest who had helped {him} in the <garden~office>. | The guest hated {him}.
- After lunch {person} washed {his} hands in the <north~south> room. | {Person} skipped lunch.
- {Person} lives in a house by the <lake~river>, and {he} {has|have} two dogs. | {He} {has|have} no pets.
- {Person} arrived at <nine~ten> because {he} had missed the train. | {He} came by train on time.
- {Person} spoke to a neighbour, and then {he} went home by <train~bus>. | {He} {was|were} silent all day.
- The <first~second> prize went to {person} for {his} essay. | {His} essay won nothing.
- {Person} bought a <red~blue> coat, and {he} {wears|wear} it every day. | {He} {does|do} not own a coat.
- {Person} called {his} cousin on <Sunday~Monday> evening. | {He} {has|have} no family at all.
- {Person} ate an apple and a <pear~plum> before {he} left. | {He} had not eaten anything.
- The letter from <London~Paris> made {person} happy, and {he} smiled. | {He} cried all night.
- {Person} climbed the hill in <May~June> with {his} friends. | {He} went up the hill alone.
- {Person} hurt {himself} on the <left~right> side of the road. | {He} hurt nobody.
- {Person} sat down at the <third~fourth> table, and someone brought {him} some bread. | Nobody brought {him} anything.
- {Person} wrote a book in the <spring~autumn>, and the idea was {his_own}. | {He} cannot write.
- The visitor from <Spain~Italy> saw {person} and waved to {him}. | The visitor did not see {him}.
- {Person} was born in <January~February>, and {he} {is|are} thirty years old. | {He} {is|are} a child.
"""

ENTAILMENT_WITHOUT_PRONOUN = """
+ {Person} {is|are} reading a <red~blue> book in the garden. | {Person} {is|are} reading.
+ {Person} bought bread and <tea~coffee> on the way home. | {Person} bought bread.
+ {Person} {has|have} lived in <London~Paris> for ten years. | {Person} {has|have} lived in a city.
+ On <Monday~Tuesday> {person} walked to the market. | {Person} went to the market.
+ The <first~second> letter was written by {person}. | {Person} wrote a letter.
+ {Person} slept in the <north~south> room all night. | {Person} slept.
- {Person} {is|are} reading a <red~blue> book in the garden. | {Person} {is|are} driving a truck.
- {Person} bought bread and <tea~coffee> on the way home. | {Person} sold a house.
- {Person} {has|have} lived in <London~Paris> for ten years. | {Person} {has|have} never left the village.
- On <Monday~Tuesday> {person} walked to the market. | {Person} stayed in bed all week.
- The <first~second> letter was written by {person}. | {Person} cannot write.
- {Person} slept in the <north~south> room all night. | {Person} worked all night.
"""

SLOT = re.compile(r"\{([^{}]+)\}")
NEUTRAL = re.compile(r"<([^<>~]+)~([^<>~]+)>")
PRONOUNS = dict(zip(("he", "him", "his", "his_own", "himself"), range(5), strict=True))


@dataclass(frozen=True)
class Template:
    """One sentence, or two, with gaps."""

    name: str
    texts: tuple[str, ...]
    positive: bool  # of one text: is the feeling good? Of two: does the second follow from the first?

    @property
    def agreement(self) -> bool:
        """Does a verb change with the pronoun?"""
        return any("|" in slot for text in self.texts for slot in SLOT.findall(text))

    def render(self, person: str, group: str = "he", *, plural: bool = False, other: bool = False) -> tuple[str, ...]:
        """Filled in: `person` as in "the nurse"; `group` is he, she or they; `other`: the control's other word."""

        def fill(found: "re.Match[str]") -> str:
            slot = found[1]
            if "|" in slot:
                return slot.split("|")[plural or group == "they"]
            small = slot.lower()
            word = person if small == "person" else FORMS[group][PRONOUNS[small]]
            return word[0].upper() + word[1:] if slot[0].isupper() else word

        return tuple(SLOT.sub(fill, NEUTRAL.sub(lambda found: found[2 if other else 1], text)) for text in self.texts)


def read_templates(page: str, prefix: str) -> list[Template]:
    lines = [line for line in page.strip().splitlines() if line]
    return [
        Template(f"{prefix}{number}", tuple(part.strip() for part in line[2:].split(" | ")), line[0] == "+")
        for number, line in enumerate(lines, start=1)
    ]


def templates(*, pair: bool, pronouns: bool) -> list[Template]:
    """Of one text or of two; with pronouns, or about a person who is only named."""
    if pair:
        return read_templates(ENTAILMENT, "e") if pronouns else read_templates(ENTAILMENT_WITHOUT_PRONOUN, "en")
    return read_templates(SENTIMENT, "s") if pronouns else read_templates(WITHOUT_PRONOUN, "sn")
