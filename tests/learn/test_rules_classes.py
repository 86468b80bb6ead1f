"""Classes of statements that the rules read, by sentences of their own, and what looks like them and says nothing."""

import pytest

from memproxy.core.memory import Kind
from memproxy.learn.candidates import Intent
from tests.learn.rules_rig import contents, said

STATED = {
    "without its subject": """
        been to Peru, Chile and Bolivia, where next? | has been to Peru
        been on metformin since May | takes metformin
        got a used kayak last month | used kayak
        can't stand musicals | can't stand musicals
        not a fan of jazz, tbh | not a fan of jazz
        training for a triathlon in September | training for a triathlon
        live in Porto with my cat | lives in Porto
        have a yoga class every Tuesday | yoga class every Tuesday
        allergic to kiwi, any swap? | allergic to kiwi
        never learned to swim | never learned to swim
        learning Welsh with an app | learning Welsh
    """,
    "what is done for long or often": """
        We sell refurbished bikes. | sells refurbished bikes
        I sing alto in a choir. | sings alto in a choir
        we heat with wood | heats with wood
        I share a flat with two nurses | shares a flat with two nurses
        I write firmware in C for pacemakers | writes firmware in C
        we keep bees and a few hens | keeps bees
        I go to the gym mon wed fri | goes to the gym mon wed fri
        we release on Thursdays | releases on Thursdays
        I run 5k every morning | runs 5k every morning
        I teach yoga to seniors | teaches yoga
        After rehearsal on Fridays we all go bowling. | After rehearsal on Fridays the user goes bowling
        I cycle to work. | cycle to work
    """,
    "states": """
        I'm deaf in my left ear. | deaf in their left ear
        I'm 14 weeks pregnant | 14 weeks pregnant
        I'm scared of needles | scared of needles
        I'm a mother of two | mother of two
        I'm 5'4 and 62 kilos | 5'4 and 62 kilos
        I'm on call every third weekend | on call every third weekend
        I've been sober for 3 years | sober for 3 years
        I've been playing the tuba for ten years | tuba
        I have arthritis in both hands. | arthritis in both hands
        I am on the board of my kid's school | on the board of their kid's school
        I live alone. | lives alone
        I live with two roommates. | lives with two roommates
    """,
    "what is not eaten, done or borne": """
        I can't have gluten | can't have gluten
        I can't sleep on the street side | can't sleep on the street side
        I don't do layovers | does not do layovers
        nothing spicy for me | nothing spicy
        nothing with coriander | nothing with coriander
        I don't go below 600 for anyone | does not go below 600
        I never drink coffee after noon | does not drink coffee
        I can't eat nuts or sesame | does not eat sesame
        I need a bathtub and quiet. | needs a bathtub
        Jo doesn't eat pork. | Jo does not eat pork
        Malik is allergic to eggs. | Malik is allergic to eggs
    """,
    "home, things and money": """
        my garden is north facing | garden is north facing
        our roof is flat | roof is flat
        my shift starts at 6am | shift is at 6am
        our standup is at 9:30 | standup is at 9:30
        I've got Netflix and Mubi | has Mubi
        I only have a microwave and a kettle | has a kettle
        I've got a steam deck and an old canoe | has an old canoe
        i'm paying for Spotify and the NYT | pays for Spotify
        my rent just went up to 1450 | rent is 1450
        I make 52k a year | salary of 52k
        my main editor is Zed | main editor is Zed
        my work mail is j.doe@brightpath.example | work mail is j.doe@brightpath.example
        my car's a 2012 Corolla | car is a 2012 Corolla
    """,
    "people near": """
        my husband's diabetic | husband is diabetic
        our baby is 5 months and hates the car seat | baby is 5 months
        my daughter attends a Waldorf school | daughter attends a Waldorf school
        I was calling my son in Perth. | son lives in Perth
        Time in Lagos visiting my parents flies. | parents live in Lagos
        we had a baby, her name is Ida | baby is named Ida
        We adopted a cat. Her name is Miso. | cat named Miso
        my landlord allows no pets | landlord allows no pets
        kids: Ana (7), Leo (4). rainy day ideas | named Leo
        cats: Bean, Toast and Gravy. | cat named Toast
        my sister Ana is a nurse, she's allergic to bees | Ana is allergic to bees
        The twins outgrew their beds last night. | has twins
        I'm juggling Zoom and a 2-year-old. | has a 2-year-old child
    """,
    "taken for granted": """
        my new hearing aids whistle | has hearing aids
        what can I grow in my greenhouse? | has a greenhouse
        my asthma is worse in spring | has asthma
        forgot my insulin at home, help | takes insulin
        vet wants 900 for Mochi's teeth, is that normal for a cat | cat named Mochi
        my pupils hate fractions, game ideas? | teaches
        is my husband right about tipping? | has a husband
        our gig is loud, earplug tips? | band
        one of our ewes limps | keeps ewes
        a gift for my grandson under 30 euros | has a grandson
    """,
    "plans": """
        got my driving test next tuesday at 8:14 | driving test is next tuesday
        interview tomorrow with Zalando | interview is tomorrow (2024-05-02) with Zalando
        it's my anniversary on friday | anniversary is on friday
        my visa expires on 30 September | visa expires on 30 September
        The offsite is in Lisbon. | offsite is in Lisbon
        Go-live for the Helios migration is 1 June. | is 1 June
        we're getting a puppy in June | getting a puppy in June
        our lease ends in August | lease ends in August
        the baby is due in October | baby is due in October
        I'm retiring in June | retiring in June
    """,
    "wishes and opinions": """
        bullet points in future pls | bullet points
        stop apologising all the time | apologising
        please use British spelling from now on | use British spelling
        always give me metric units | metric units
        aisle seat as always | aisle seat
        tabs not spaces, house style | tabs rather than spaces
        the rota app grew on me | come to like the rota app
        I'm done with hot yoga | done with hot yoga
        love my e-bike but the saddle is torture | saddle torture
        love anything by Miyazaki | loves anything by Miyazaki
        I'd rather read than watch a video | prefers to read
        I find Jira clunky | finds Jira clunky
    """,
}
_STATED = [
    tuple(part.strip() for part in line.split(" | "))
    for lines in STATED.values()
    for line in lines.strip().splitlines()
]


@pytest.mark.parametrize(("sentence", "statement"), _STATED)
def test_a_sentence_of_each_class_is_read(sentence: str, statement: str) -> None:
    found = contents(sentence)
    assert any(statement in content for content in found), found


NOTHING = """
I have a question about the second paragraph.
I have 12 tests that fail.
I have an argument with my compiler.
We have two options here.
I have no idea.
I'm a bit lost.
I'm a genius lol
I'm a mess today.
I'm in a hurry.
I'm getting an error on line 12.
I'm trying to center a div.
I keep getting a 404.
I see three columns.
I read it yesterday.
I meant the green one.
I put one back.
I got the test back.
I don't know what that means.
I don't understand step 3.
I don't want the intro.
I can't find the file.
I can't see the picture.
I can't do it.
I take it back.
I take the second one.
I wonder how long it takes.
I agree with option 2.
My code has 3 loops.
My regex matches too much.
my bread is too dense
My plants are dying.
What's my dog called?
Do you remember my wife's name?
Who is my landlord?
If my husband were a cook, what would he make?
Would my son like it?
Backstory for my character: I'm Thessaly, a cleric, and I fear fire.
Let's play 20 questions. I am an animal and I live in trees.
Write my dating profile: I'm Max, I love hiking and I have two dogs.
Write a cover letter for a made-up person. I have ten years in sales.
finish my haiku: I live by the sea / I have no one
I have 3 red marbles and draw two, what's the probability that both are red?
Interview me as a detective. I was at home all night.
Here's the email: I live in Oslo and I have three cats.
No thanks, nothing for me.
When I click save, I get an error, then it closes, and I lose everything.
first, thanks. then one more thing
what if I moved to Rome with my dog?
say I earn 80k and live in Zurich
a 5-year-old could do that
the twins in the movie are funny
my character has a dog
I have a table orders with two columns.
I havent started the second part.
the car park is a nightmare
name's on the tip of my tongue
""".strip().splitlines()


@pytest.mark.parametrize("sentence", NOTHING)
def test_what_only_looks_like_a_statement_is_left_alone(sentence: str) -> None:
    assert contents(sentence) == []


def test_whoever_plays_a_part_goes_on_playing_it() -> None:
    assert said(("user", "Backstory for my character, a cleric."), ("user", "my god is Lathander btw")) == []


CHANGED = [
    ("I have three kids.", "oops, four kids", "four kids"),
    ("My flight is on 3 June at 7.", "ugh they moved the flight to 5 June", "5 June"),
    ("My name is Jon.", "it's John with an h", "John"),
    ("my budget is 500", "bump the budget to 700", "700"),
    ("The deadline is 1 May.", "deadline slipped to 15 May", "15 May"),
    ("I earn 50k", "got a raise, 55k now", "55k"),
    ("I weigh 82 kg", "I'm down to 78 kg now", "78"),
    ("my desk is 120 cm wide", "correction: 140", "140 cm"),
    ("Our plan Pro costs 29 a seat.", "We raised prices: Pro costs 35 a seat.", "35 a seat"),
    ("The offsite is in Lisbon.", "scratch that, the offsite is in Valencia.", "Valencia"),
    ("Go-live is 1 June.", "Helios got pushed back, go-live is now 15 June.", "15 June"),
    ("my train leaves at 9:15", "sorry, it's at 9:45", "9:45"),
    ("I commute by car", "I cycle to work now", "cycle"),
]


@pytest.mark.parametrize(("before", "then", "value"), CHANGED)
def test_a_change_is_read_in_many_wordings(before: str, then: str, value: str) -> None:
    found = said(("user", before), ("user", then))[-1]
    assert found.intent is Intent.CORRECT
    assert value in found.content
    assert found.content.endswith(".")


ENDED = [
    ("we have a cat named Luna", "we had to give Luna away", "Luna"),
    ("I take metformin", "the doctor took me off metformin", "metformin"),
    ("I'm on the board of our tennis club", "I've stepped down from the tennis club board", "tennis club"),
    ("I've got Netflix and Mubi.", "cancelled Netflix last month", "Netflix"),
    ("im learning ukrainian with an app", "i gave up on ukrainian tbh", "ukrainian"),
    ("I'm going to Reykjavik in May with Tom.", "that Reykjavik trip is off, Tom broke his ankle", "Reykjavik"),
    ("I earn 61k before tax", "hey forget what I said about my salary, shouldn't have shared that", "salary"),
    ("my phone number is 0171 555 0142", "please don't keep my phone number anywhere.", "0142"),
    ("We use Jenkins.", "we ripped out Jenkins", "Jenkins"),
    ("I work at Acme.", "I left Acme in March", "Acme"),
    ("my son plays the violin", "my son quit the violin", "violin"),
    ("my daughter Mina is allergic to dogs", "turns out Mina isn't allergic to dogs at all", "dogs"),
    ("I'm engaged to Tim.", "Tim and I split up", "Tim"),
]


@pytest.mark.parametrize(("before", "then", "what"), ENDED)
def test_an_end_is_read_in_many_wordings(before: str, then: str, what: str) -> None:
    found = [one for one in said(("user", before), ("user", then)) if one.intent is Intent.FORGET]
    assert any(what in one.content for one in found), found


OPPOSED = [
    ("I don't eat fish", "I eat fish twice a week", "does not eat fish"),
    ("I'm vegetarian", "I eat meat again since January", "is vegetarian"),
    ("I don't drink", "I drink wine at weekends now", "does not drink"),
    ("I smoke about a pack a day", "I quit smoking in January", "smokes about a pack"),
    ("I'm single", "I have a boyfriend now", "is single"),
]


@pytest.mark.parametrize(("before", "then", "ended"), OPPOSED)
def test_the_opposite_ends_what_was_said_without_a_word_of_correction(before: str, then: str, ended: str) -> None:
    found = said(("user", before), ("user", then))
    assert any(one.intent is Intent.FORGET and ended in one.content for one in found), found
    assert found[-1].intent is Intent.STATE


SAME_QUESTION = [
    ("I go to the gym twice a week", "I go to the gym four times a week"),
    ("We freeze code on Fridays.", "We freeze code on Tuesdays."),
    ("I live alone.", "I live with two roommates."),
    ("My GP is Dr. Haldane.", "my GP is Dr. Osei, seems nice"),
    ("we're going with Airtable for the roster", "we ended up choosing Notion for the roster"),
    ("I take 20 mg of lisinopril", "I take 10 mg of lisinopril"),
    ("my son is 7 and wants to learn chess", "My son is 8 and beats me at chess"),
    ("The offsite is in Lisbon.", "The offsite is in Valencia."),
]


@pytest.mark.parametrize(("one", "other"), SAME_QUESTION)
def test_two_answers_to_one_question_have_one_slot(one: str, other: str) -> None:
    first, second = said(("user", one))[0], said(("user", other))[0]
    assert (first.subject, first.predicate) == (second.subject, second.predicate)
    assert first.object != second.object


STEPS = [
    "for hotfixes we branch off the last tag, cherry-pick the fix, bump the version and let Jenkins build it.",
    "Every last Friday of the month I export hours from Toggl, round them, send the invoice and log it in a sheet.",
    "When there's an outage, whoever's on call opens a bridge, posts in the channel, and pages the lead.",
    "My sourdough: feed at 8, mix at noon, fold twice, bake next morning.",
    "my bread recipe: 500 g flour, 350 g water, 10 g salt, overnight in the fridge",
    "bedtime with our toddler: bath, two books, lullaby, lights out at 7:30.",
    "first I soak the beans, then I boil them for an hour",
    "every sunday I batch cook chili, portion it and freeze half",
    "ok before I forget: to roll back the api, run the revert job, then flush the cache, then tell the channel.",
    "when I onboard someone I create the account, add them to Slack, order a laptop and book lunch",
]


@pytest.mark.parametrize("sentence", STEPS)
def test_steps_are_kept_whole(sentence: str) -> None:
    found = [one for one in said(("user", sentence)) if one.kind is Kind.PROCEDURAL]
    assert len(found) == 1, found
    assert sentence.rstrip(".").split()[-1] in found[0].content
