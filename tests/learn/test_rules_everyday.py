"""Plain statements and their plain corrections, as people type them: afterwards one value holds, the new one."""

import re
from datetime import timedelta

import pytest

from memproxy.core.turn import Message, make_turns
from memproxy.learn.candidates import Window
from memproxy.learn.rules import extract
from memproxy.learn.rules.ledger import Ledger
from memproxy.learn.statement import memory_of
from tests.learn.rig import ANN, NOON
from tests.learn.rules_rig import window

TOLD_AND_CORRECTED = r"""
# name
My name is Dana. | Actually my name is Dinah. | Dinah | Dana
I'm Mike. | it's Mick, not Mike | Mick | Mike
call me katie | call me Kat instead | Kat\b | katie
I'm called Steven | My name is spelled Stephen | Stephen | Steven
My last name is Okafor. | I got married, my last name is Bauer now. | Bauer | Okafor
my username is sunny42 | I changed my username to rainy42 | rainy42 | sunny42
# city
I live in Berlin. | I moved to Hamburg. | Hamburg | Berlin
i live in leeds | i live in york now | York | Leeds
We live in Madrid. | We are back in Porto. | Porto | Madrid
I live in Paris. | We've moved to Lyon last week | Lyon | Paris
I'm based in Austin. | I relocated to Denver in May. | Denver | Austin
I live in Vienna. | No, I live in Graz. | Graz | Vienna
I'm living in Rome at the moment | Moved out of Rome, I live in Turin now | Turin | Rome
my home town is Cork | no, my home town is Galway | Galway | Cork
I live in Dublin. | I don't live in Dublin any more, I live in Belfast. | Belfast | Dublin
# job
I'm a nurse. | I'm a teacher now. | teacher | nurse
I work as a waiter | I became a barista | barista | waiter
I'm a student | I'm not a student any more, I'm a paralegal | paralegal | student
I am a junior developer | I got promoted to senior developer | senior | junior
my job is cook | My job changed, I'm a driver now | driver | cook
I'm an accountant. | I quit accounting and became a florist. | florist | accountant
I'm a plumber | I retrained as an electrician | electrician | plumber
# employer
I work at Google. | I work at Apple now. | Apple | Google
I work for Siemens | I left Siemens and joined Bosch | Bosch | Siemens
I work at Tesco | I switched jobs, I'm at Aldi now | Aldi | Tesco
My employer is IKEA | My new employer is Lidl | Lidl | IKEA
I work at a bank | I work at a bakery now | bakery | bank
i work for nike | started at adidas this month | Adidas | Nike
I work at Shell. | Not Shell any more, I work at Total. | Total | Shell
My boss is Karen | my new boss is Peter | Peter | Karen
I work 40 hours a week | I work 30 hours a week now | 30 | 40
My team has 6 people. | there are 7 people in my team now | 7 | 6
# age
I'm 29 years old. | I'm 30 now. | 30 | 29
I am 41 | I turned 42 last week | 42 | 41
My son is 5. | my son is 6 now | 6 | 5
My daughter Lea is 8. | Lea just turned 9 | 9 | 8
My dog is 3 years old | My dog is 4 now | 4 | 3
i'm 17 | i'm 18 now!! | 18 | 17
# birthday
My birthday is March 3. | No wait, my birthday is March 5. | March 5 | March 3
My wife's birthday is in May. | Actually my wife's birthday is in June. | June | May
I was born in 1985 | sorry, I was born in 1986 | 1986 | 1985
# pets
I have a dog named Rex. | We renamed Rex to Max. | Max | Rex
My cat is called Luna. | My cat is called Lana, not Luna. | Lana | Luna
I have two cats. | I have three cats now. | three | two
My dog is a poodle. | my dog isn't a poodle but a labradoodle | labradoodle | poodle
our hamster is called Pip | the hamster's name is Pim, sorry | Pim | Pip
I have a rabbit | I gave the rabbit away and got a parrot | parrot | rabbit
# partner
My girlfriend is called Anna. | My girlfriend is called Hannah, not Anna. | Hannah | \bAnna
My boyfriend is Tom. | I broke up with Tom, my boyfriend is Ben now. | Ben | Tom
I'm single | I'm married now | married | single
I'm engaged | we got married last weekend | married | engaged
I'm married | I'm divorced now | divorced | \bmarried
# kids
I have two kids. | I have three kids now. | three | two
I have one daughter | we have two daughters now | two | one
My son is called Leo. | my son's name is Theo, not Leo | Theo | Leo
our baby is due in April | The baby is due in May, not April | May | April
my son goes to kindergarten | my son goes to primary school now | primary school | kindergarten
# diet
I'm vegetarian. | I'm vegan now. | vegan | vegetarian
I'm vegan | I'm not vegan any more, I'm vegetarian | vegetarian | vegan
I don't eat meat. | I eat meat again. | meat | not eat
I drink my coffee black | I drink my coffee with milk now | milk | black
I'm on keto | I switched from keto to paleo | paleo | keto
I eat gluten free | I don't eat gluten free any more, I eat low carb now | low carb | gluten
# allergies
I'm allergic to nuts. | Not nuts, I'm allergic to shellfish. | shellfish | nuts
I'm allergic to peanuts | I meant walnuts, not peanuts | walnuts | peanuts
I'm lactose intolerant | turns out I'm gluten intolerant, not lactose intolerant | gluten | lactose
my daughter is allergic to cats | no, my daughter is allergic to dogs, not cats | dogs | cats
# car
I drive a Golf. | I drive a Tesla now. | Tesla | Golf
My car is a Toyota Yaris. | I sold the Yaris and bought a Skoda Fabia. | Fabia | Yaris
I have a Ford Fiesta | I traded the Fiesta for a Mazda 3 | Mazda | Fiesta
my car is blue | I had my car painted, it's green now | green | blue
i drive a bmw | we switched to an audi | Audi | BMW
We own a van. | We swapped the van for a camper. | camper | \bvan
My car is a Polo | My new car is a Corsa | Corsa | Polo
# phone
My phone is an iPhone 13. | My phone is a Pixel 8 now. | Pixel | iPhone
I have a Samsung Galaxy | I switched to an iPhone | iPhone | Galaxy
my phone number is 555-1234 | my new number is 555-9876 | 9876 | 1234
I use Android | I use iOS now | iOS | Android
My phone is a Nokia. | Got a new phone, a Fairphone 5. | Fairphone | Nokia
My email is a@x.example | my email is b@x.example now | b@x | a@x
# editor, language, tools
My editor is vim | I switched to emacs | emacs | vim
My editor is vim | I use helix now | helix | vim
I use VS Code. | I moved to Zed. | Zed | VS Code
I use Chrome | I use Firefox instead of Chrome now | Firefox | Chrome\b(?!.*Firefox)
I code in Python | I code in Rust now | Rust | Python
My favourite programming language is Java. | My favourite programming language is Kotlin now. | Kotlin | Java
We use MySQL. | We migrated to Postgres. | Postgres | MySQL
I use Windows | I switched to Linux | Linux | Windows
I use Spotify | I use Tidal now | Tidal | Spotify
I take notes in Notion | I take notes in Obsidian now | Obsidian | Notion
our shell is bash | we use zsh now | zsh | bash
My laptop is a Dell. | My laptop is a MacBook now. | MacBook | Dell
I use dark mode | I use light mode now | light | dark
# favourite X
My favourite colour is blue. | My favourite colour is green now. | green | blue
my favorite food is pizza | my favorite food is ramen now | ramen | pizza
my favourite film is Alien | I changed my mind, my favourite film is Heat | Heat | Alien
My favourite team is Arsenal. | No, my favourite team is Chelsea. | Chelsea | Arsenal
my fav animal is the otter | my fav animal is the fox now | fox | otter
My favourite season is winter | scratch that, my favourite season is spring | spring | winter
# hobby
I play tennis. | I play padel instead of tennis now. | padel | tennis\b(?!.*padel)
I play guitar | I gave up guitar and play drums now | drums | guitar
My hobby is knitting. | My hobby is pottery now. | pottery | knitting
I do yoga on Mondays | I do yoga on Fridays now | Friday | Monday
I run 5 km a day | I run 8 km a day now | 8 | 5
I'm learning Spanish | I'm learning Italian instead of Spanish | Italian | learning Spanish
# school
I study law. | I switched to medicine. | medicine | law
I go to Harvard | I transferred to Yale | Yale | Harvard
my son is in 2nd grade | My son is in 3rd grade now | 3rd | 2nd
I'm in my first year of university | I'm in my second year of university now | second | first
My major is history | I changed my major to physics | physics | history
# deadlines
The deadline is Friday. | The deadline is Monday now. | Monday | Friday
The report is due on May 3. | The report was pushed to May 10. | May 10 | May 3
my thesis is due in June | my thesis is due in August, not June | August | June
the launch is on 1 march | the launch moved to 15 march | 15 March | \b1 March
Our project ends in October | Our project ends in December now | December | October
# prices, budgets
My budget is 500 euros. | My budget is 700 euros now. | 700 | 500
my rent is 900 | my rent went up to 950 | 950 | 900
I earn 3000 a month | I earn 3500 a month now | 3500 | 3000
My gym costs 30 a month | my gym costs 35 a month now | 35 | 30
we pay 1200 rent | rent's gone up to 1300 | 1300 | 1200
My salary is 50k | I got a raise, my salary is 55k | 55k | 50k
# appointments
I have a meeting at 3pm. | the meeting is at 4pm now | 4 | 3
my flight is at 9am | my flight is at 11am now | 11 | 9
My interview is on Thursday | My interview got moved to Friday | Friday | Thursday
We meet on Wednesdays at 7 | We meet on Thursdays at 7 now | Thursdays | Wednesdays
my flight leaves from Gatwick | my flight leaves from Heathrow, not Gatwick | Heathrow | Gatwick
the party is on Saturday | the party is on Sunday instead | Sunday | Saturday
The dinner is at 7 | oops, 8 not 7 | 8 | 7
# addresses
My address is 12 Elm Street. | My address is 40 Oak Road now. | Oak | Elm
I live at 5 High Street | I live at 9 Low Lane now | Low Lane | High Street
my address is 14 Mill Lane, Norwich | 41, not 14 | \b41\b | \b14\b
My zip code is 10115 | my zip code is 10117 now | 10117 | 10115
our office is on the 3rd floor | our office is on the 5th floor now | 5th | 3rd
# opinions with aspects
I love the camera of my phone. | I hate the camera of my phone now. | hate | love
I like Python | I don't like Python any more | not like | likes
I hate cilantro | I actually like cilantro now | \blike | hate
I prefer tea | I prefer coffee now | coffee | tea
I love my job | I hate my job now | hate | love
I prefer short answers | I prefer long answers now | long | short
I like the battery of my watch | I don't like the battery of my watch any more | not like | likes
# misc
I'm 180 cm tall | sorry, I'm 178 cm tall | 178 | 180
I weigh 80 kg. | I weigh 76 kg now. | 76 | 80
My shoe size is 42. | No, my shoe size is 43. | 43 | 42
I smoke | I quit smoking | quit | smokes
I commute by car | I commute by train now | train | by car
I cycle to work | I take the bus to work now | bus | cycle
My doctor is Dr. Lee | my doctor is Dr. Shah now | Shah | Lee
My bank is HSBC | I switched to Monzo | Monzo | HSBC
I have long hair | I have short hair now | short | long
My gym is McFit | My gym is FitX now | FitX | McFit
my landlord is Mr Petrov | my landlord is Mr Petrova, not Petrov | Petrova | Petrov\b
I take 10 mg of lisinopril | I take 20 mg of lisinopril now | 20 | 10
I sleep 6 hours a night | I sleep 8 hours a night now | 8 | 6
I wake up at 7 | I wake up at 6 now | 6 | 7
My timezone is CET | my timezone is EST now | EST | CET
I go to bed at 11 | I go to bed at 10 now | 10 | 11
"""
"""What is said, what corrects it later, the new value and the old one (regular expressions, case aside)."""

IN_ONE_CONVERSATION = r"""
I live in Oslo | sorry, I meant Bergen | Bergen | Oslo
my birthday is on 12 june | i meant 12 july | July | June
My wife's name is Sara | it's Sarah with an h | Sarah | Sara\b
My favourite band is Blur | it's Pulp now | Pulp | Blur
The budget is $10,000. | No, it's 15,000 now. | 15,000 | 10,000
our wedding budget is 12k | make that 14k | 14k | 12k
My dentist appointment is on Monday. | Actually Tuesday. | Tuesday | Monday
I have a doctor's appointment on 3 May | it was moved to 5 May | 5 May | \b3 May
our trip is to Lisbon | I meant Porto | Porto | Lisbon
"""
"""The same, of corrections that name nothing: they are about what was just said, and of another day about nothing."""


def _rows(table: str) -> list[tuple[str, ...]]:
    lines = [line for line in table.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" | ")) for line in lines]


def _held(told: str, corrected: str) -> list[str]:
    """What holds after both were said in one conversation."""
    ledger = Ledger([])
    for one in extract(window([("user", told), ("assistant", "Okay."), ("user", corrected)])).kept:
        ledger.add(one.candidate, 0)
    return [one.statement.content for one in ledger.newest()]


def _held_later(told: str, corrected: str) -> list[str]:
    """What holds after the second was said three days later, where the first is known."""
    first = extract(window([("user", told)])).kept
    known = [memory_of(one, ANN, now=NOON, extractor="rules") for one in first]
    turns = make_turns(ANN, [Message(role="user", content=corrected)], now=NOON + timedelta(days=3))
    second = extract(Window(turns=turns, new_ids=frozenset(turn.id for turn in turns), known=known)).kept
    ledger = Ledger([])
    for one in (*first, *second):
        ledger.add(one.candidate, 0)
    return [one.statement.content for one in ledger.newest()]


def _only(held: list[str], new: str, old: str) -> bool:
    """Whether one statement has the new value, and none the old one alone."""
    with_new = [content for content in held if re.search(new, content, re.IGNORECASE)]
    return len(with_new) == 1 and not any(re.search(old, content, re.I) for content in set(held) - set(with_new))


def test_there_are_pairs_of_every_everyday_sort() -> None:
    assert len(_rows(TOLD_AND_CORRECTED)) + len(_rows(IN_ONE_CONVERSATION)) >= 150


@pytest.mark.parametrize(("told", "corrected", "new", "old"), _rows(TOLD_AND_CORRECTED))
def test_a_plain_correction_leaves_the_new_value_alone(told: str, corrected: str, new: str, old: str) -> None:
    for held in (_held(told, corrected), _held_later(told, corrected)):
        assert _only(held, new, old), held


@pytest.mark.parametrize(("told", "corrected", "new", "old"), _rows(IN_ONE_CONVERSATION))
def test_a_correction_that_names_nothing_is_about_what_was_just_said(
    told: str, corrected: str, new: str, old: str
) -> None:
    assert _only(_held(told, corrected), new, old)
