"""The statements that rules read, as data, and what they make of a clause."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import NamedTuple

from memproxy.core.entities import ABBREVIATED, is_abbreviation
from memproxy.core.memory import Kind
from memproxy.core.slots import singular
from memproxy.core.timerange import spans_in_statement
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.own_words import MASK

# ruff: noqa: E501


_WORD = r"[^\s,;:()\"!?]{1,30}"
_CAPITAL = r"(?-i:[A-ZÀ-Þ])[\w'’&.+#-]{0,30}"
_NAME = rf"{_CAPITAL}(?: (?:(?:of|the|de|di|von|van|la|le|am|&) )?(?-i:[A-ZÀ-Þ0-9])[\w'’&.+#-]{{0,30}}){{0,4}}"
_MONTH = r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
_TIME = r"(?:\d{1,2}[:.]\d\d(?: ?[ap]\.?m\b)?|\d{1,2} ?[ap]\.?m\b|noon|midnight|\d{1,2} o'?clock)"
_DAY = rf"(?:\d{{4}}-\d\d-\d\d|(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}\b|{_MONTH} (?:the )?\d{{1,2}}(?:st|nd|rd|th)?\b|{_MONTH}\b|(?:next |this |this coming |coming )?(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|tomorrow\b|the \d{{1,2}}(?:st|nd|rd|th))"
_DATE = rf"(?:(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,? )?{_DAY}(?:,? (?:19|20)\d\d)?(?:,? (?:at )?{_TIME})?|{_TIME}(?: on {_DAY})?)"
_AMOUNT = r"(?:(?:about|around|up to|roughly|max) )?(?:[$€£¥] ?\d[\d,.]{0,12}(?: ?[km]\b| million\b)?|\d[\d,.]{0,12} ?(?:[km]\b ?)?(?:dollars?|euros?|eur|usd|gbp|pounds?|chf|francs?|yen|bucks|€|\$|£)|\d[\d,.]{0,12}k\b)(?: (?:a|per) (?:month|year|week|day|night|hour|person))?"
_NUMBER = r"\d[\d,.:/-]{0,14}(?: ?(?:kg|kilos?|lbs?|pounds|cm|m|km|miles?|mg|ml|%|percent|inch(?:es)?|feet|ft|minutes?|hours?|days?|weeks?|months?|years?|people|guests|pages|words|gb|tb))?\b"
COUNT = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|\d{1,2})"
_CODE = r"(?=[\w.+-]{0,20}\d)[\w.+-]{2,24}|[\w.+-]{1,40}@[\w.-]{3,40}|\+?\d[\d -]{4,18}\d"

_PLACE_ENDS = r"(?=\Z|[,;:.()]|(?: (?:with|since|because|for|and|but|so|in|at|on|by|until|till|as|after|before|near|from|to|about|now|again|where|which|who|when|while|though|last|this|these|right|not|due|i|we|my)\b)| [-–—])"
_CLAUSE_ENDS = r"(?=\Z|[,;:()]|(?: (?:because|since|but|so|where|which|who|when|while|though|although|as|until|till|after|before|not)\b)| [-–—])"

VALUES = {
    "NAME": rf"(?P<x>{_NAME}){_PLACE_ENDS}",
    "PLACE": rf"(?P<x>{_NAME}(?:, {_CAPITAL})?|(?-i:[a-zà-þ'-]{{3,20}})){_PLACE_ENDS}",
    "SHORT": rf"(?P<x>{_WORD}(?: {_WORD}){{0,4}}?){_PLACE_ENDS}",
    "PHRASE": rf"(?P<x>{_WORD}(?: {_WORD}){{0,8}}?){_CLAUSE_ENDS}",
    "LIST": rf"(?P<x>{_WORD}(?:,? {_WORD}){{0,14}}?)(?=\Z|[;:()]|(?:,? (?:because|since|but|so|when|which)\b)| [-–—])",
    "NAMES": rf"(?P<x>{_NAME}(?:(?:, (?:and )?| and | & ){_NAME}){{0,5}}){_PLACE_ENDS}",
    "DATE": rf"(?P<x>{_DATE}){_PLACE_ENDS}",
    "TIME": rf"(?P<x>{_TIME}){_PLACE_ENDS}",
    "AMOUNT": rf"(?P<x>{_AMOUNT}){_PLACE_ENDS}",
    "NUMBER": rf"(?P<x>{_NUMBER}){_PLACE_ENDS}",
    "COUNT": rf"(?P<n>{COUNT})",
    "CODE": rf"(?P<x>{_CODE}){_PLACE_ENDS}",
    "KIN": r"(?P<k>wife|husband|spouse|partner|girlfriend|boyfriend|fianc[eé]e?|mum|mom|mother|dad|father|son|daughter|brother|sister|uncle|aunt|cousin|niece|nephew|grandmother|grandfather|grandma|grandpa|granddaughter|grandson|mother-in-law|father-in-law|roommate|flatmate|housemate|boss|manager|colleague|coworker|neighbou?r|best friend|friend|landlord|landlady|therapist|doctor|dentist|vet)",
    "MANY_KIN": r"(?P<k>kids|children|sons|daughters|brothers|sisters|siblings|grandchildren|grandkids|twins|son|daughter|brother|sister|kid|child|twin)",
    "ANIMAL": r"(?P<k>dog|puppy|cat|kitten|parrot|horse|pony|rabbit|hamster|turtle|tortoise|guinea pig|budgie|ferret|gecko|snake)",
    "ANIMALS": r"(?P<k>dogs?|pupp(?:y|ies)|cats?|kittens?|parrots?|horses?|rabbits?|hamsters?|turtles?|tortoises?|guinea pigs?|budgies?|chickens?|hens)",
    "JOB": r"(?P<x>(?:[\w-]{2,20} ){0,3}?(?:engineer|developer|programmer|teacher|nurse|doctor|surgeon|dentist|vet|lawyer|solicitor|accountant|architect|designer|electrician|plumber|carpenter|joiner|baker|chef|cook|waiter|waitress|barista|journalist|writer|editor|translator|photographer|musician|analyst|scientist|researcher|professor|lecturer|librarian|pharmacist|paramedic|firefighter|farmer|gardener|florist|mechanic|welder|pilot|driver|consultant|administrator|therapist|physiotherapist|psychologist|midwife|social worker|estate agent|hairdresser|beekeeper|bookkeeper|secretary|receptionist|cleaner|bartender|student|freelancer|cto|ceo|cfo|founder|co-founder|manager|director|lead|owner|landlord|bus driver|carer|priest|judge|potter|tailor|butcher))(?=\Z|[,;:()]| (?:at|in|for|from|of|with|and|but|on|by|who|based|living|working|to)\b)",
    "DIET": r"(?P<x>vegan|vegetarian|pescatarian|pescetarian|teetotal|keto)(?=\Z|[,;:()]| (?:and|but|so|since|for|now|because)\b)",
    "STATE": r"(?P<x>lactose[- ]intolerant|gluten[- ]intolerant|coeliac|celiac|diabetic|type [12] diabetic|asthmatic|dyslexic|colou?r-?blind|deaf|autistic|pregnant|left-handed|right-handed|retired|self-employed|unemployed)(?=\Z|[,;:()]| (?:and|but|so|since|now|because)\b)",
    "ILLNESS": r"(?P<x>(?:severe |mild |chronic |bad )?(?:asthma|type [12] diabetes|diabetes|adhd|add|autism|dyslexia|migraines?|celiac disease|coeliac disease|crohn'?s(?: disease)?|ibs|arthritis|epilepsy|eczema|psoriasis|hypertension|high blood pressure|anxiety|depression|insomnia|sleep apn[eo]ea|tinnitus|hay fever|endometriosis|hypothyroidism|an? \w{3,12} (?:allergy|intolerance)|lactose intolerance))(?=\Z|[,;:()]| (?:and|but|so|since|for|in|which)\b)",
    "THING": r"(?P<k>car|van|phone|laptop|computer|bike|bicycle|motorbike|camera|tablet|keyboard|guitar|piano|printer|router|editor|ide|bank|gym|school|university|timezone|time zone|employer|company|team|job title|address|shoe size|dress size|blood type|star sign|native language|mother tongue|email(?: address)?|phone number|username|github (?:handle|username)|license plate|postcode|zip code|nickname|middle name|surname|last name|main language|operating system|os|publisher|bank|insurer|provider|supplier|carrier|hometown|home town|home office)",
    "PLAYED": r"(?P<x>(?:the )?(?:guitar|bass|piano|violin|viola|cello|flute|drums|sax|saxophone|trumpet|clarinet|harp|ukulele|accordion|banjo|organ)|tennis|football|soccer|basketball|volleyball|badminton|squash|padel|golf|rugby|cricket|hockey|chess|poker|handball|table tennis|bridge|go)(?=\Z|[,;:()]| (?:in|at|on|every|with|for|and|twice|once|since|three)\b)",
}
"""Kinds of values. Those with ``x`` are the object of what is said, ``k`` and ``n`` stand in its words."""


class Row(NamedTuple):
    """One statement: its wording, what it says of ``subject``, and the slot and category it goes to.

    ``many``: the value is a list, a statement for each item. ``stance``: what is held of a thing.
    ``goes_on``: it names somebody, and the clause may say more of him.
    """

    pattern: str
    content: str
    predicate: str
    category: str
    subject: str = "user"
    many: bool = False
    stance: str | None = None
    object: str = "{x}"
    kind: Kind = Kind.SEMANTIC
    goes_on: bool = False


_HAVE = r"(?:I|we) (?:have )?"
_AM = r"(?:I|we) (?:am|are) "
_MY = r"(?:my|our) "
_IS = r"(?: is|'s) (?:called |named )?"
_OF = "personal/name"

ROWS = (
    # who
    Row(rf"{_MY}(?:full |first )?name(?: is|'s) {{PLACE}}", "User's name is {x}", "name", _OF),
    Row(r"(?:you can |please )?call me {NAME}", "User wants to be called {x}", "preferred_name", _OF),
    Row(r"I am (?P<x>\d{2})(?: years old| y/?o)(?!\w)", "User's age is {x}", "age", "personal/age"),
    Row(r"I am (?P<x>[1-9]\d)(?=\Z|, )", "User's age is {x}", "age", "personal/age"),
    Row(r"(?:my|our) birthday(?: is|'s) (?:on )?{DATE}", "User's birthday is {x}", "birthday", "personal/birthday"),
    Row(r"(?:I )?(?:have )?turned (?P<x>[1-9]\d)\b", "User's age is {x}", "age", "personal/age"),
    Row(r"I was born (?:on|in) (?P<x>(?:19|20)\d\d)\b", "User was born in {x}", "birth_year", "personal/birthday"),
    Row(r"I was born in {NAME}", "User was born in {x}", "birthplace", "personal/origin"),
    Row(rf"{_AM}(?:originally )?from {{NAME}}", "User is from {x}", "comes_from", "personal/origin"),
    Row(r"(?:I|we) grew up in {NAME}", "User grew up in {x}", "grew_up_in", "personal/origin"),
    Row(r"I speak (?:fluent |some |a little )?{NAMES}", "User speaks {x}", "speaks", "personal/language", many=True),
    Row(r"my pronouns are {SHORT}", "User's pronouns are {x}", "pronouns", _OF),
    Row(r"I (?:am called|go by|am known as) {NAME}", "User's name is {x}", "name", _OF),
    Row(rf"I am (?P<x>{_CAPITAL} {_CAPITAL})(?=\Z|,| and\b)", "User's name is {x}", "name", _OF),
    Row(rf"I am (?P<x>{_CAPITAL})(?=\Z|,| and\b)", "User is {x}", "is", _OF),
    # home
    Row(rf"{_HAVE}(?:now )?live in (?:a (?:flat|house|apartment) in )?{{PLACE}}", "User lives in {x}", "lives_in", "personal/location"),
    Row(rf"{_AM}(?:now )?(?:based|living) in {{PLACE}}", "User lives in {x}", "lives_in", "personal/location"),
    Row(rf"{_HAVE}(?:moved|relocated)(?: back| house)? to {{NAME}}", "User lives in {x}", "lives_in", "personal/location"),
    Row(r"my (?:home |new |postal )?address is (?P<x>\d[^;!?]{4,60}|[^;!?\d]{3,40} \d[^;!?]{0,40})", "User's address is {x}", "address", "personal/address"),
    # work and study
    Row(rf"{_HAVE}(?:now )?work (?:at|for) (?:the )?{{NAME}}", "User works at {x}", "works_at", "work/employer"),
    Row(rf"{_HAVE}(?:now )?work (?:at|for) (?P<x>an? [\w'-]{{3,20}}(?: [\w'-]{{3,20}}){{0,2}}?){_PLACE_ENDS}", "User works at {x}", "works_at", "work/employer"),
    Row(rf"{_AM}(?:now )?working (?:at|for) (?:the )?{{NAME}}", "User works at {x}", "works_at", "work/employer"),
    Row(rf"{_HAVE}(?:joined|started (?:working )?at|(?:got|started|accepted) an? (?:new )?job (?:at|with)) {{NAME}}", "User works at {x}", "works_at", "work/employer"),
    Row(r"I (?:now )?work as (?:an? |the )?{SHORT}", "User works as {x}", "works_as", "work/job"),
    Row(r"I am (?:working as )?(?:an?|the) (?!bad |terrible |huge |big |great )(?:new |trained )?{JOB}", "User works as {x}", "works_as", "work/job"),
    Row(r"as (?:an?|the) {JOB}(?=.{0,200}\b(?:I|my|we|our)\b)", "User works as {x}", "works_as", "work/job"),
    Row(rf"{_AM}(?:now )?{{STATE}}", "User is {x}", "has_condition", "personal/state"),
    Row(r"I (?:study|am studying) {NAME}", "User studies {x}", "studies", "education"),
    Row(r"I (?:study|am studying) (?P<x>[a-z]{4,20}(?: [a-z]{4,20})?)(?=\Z|,| (?:at|in)\b)", "User studies {x}", "studies", "education"),
    Row(r"I am learning (?:how )?{PHRASE}", "User is learning {x}", "learning", "education", many=True),
    Row(r"(?:I|we) (?:run|own|manage) (?:an?|my own|our own) (?P<x>(?:[\w-]{2,20} ){0,3}(?:bakery|caf[eé]|shop|store|studio|business|company|restaurant|farm|agency|practice|bar|pub|hotel|school|gallery|nursery|workshop|brewery|podcast|blog|newsletter|startup)(?: (?:called|named) (?-i:[A-Z])[^,;:()]{1,40}?)?)(?=\Z|[,;:()]| (?:in|with|and|together|on|for|near|of)\b)", "User runs {x}", "runs", "work/business"),
    Row(r"I teach (?P<x>[\w-]{3,20}(?: [\w-]{3,20})?)(?=\Z|[,;]| (?:at|in|to|and)\b)", "User teaches {x}", "teaches", "work/job"),
    Row(r"(?:I|we) commute by {SHORT}", "User commutes by {x}", "commutes_by", "habits"),
    # people
    Row(rf"{_MY}{{KIN}}(?:'s name)?{_IS}{{NAME}}", "User's {k} is named {x}", "{k}", "people/family"),
    Row(rf"{_MY}{{KIN}},? (?P<x>{_CAPITAL})(?=\Z|[,;:()]| (?:is|has|and|lives|works|loves|likes|who|was|just|also|turned|turns|got|wants|needs|had|does|goes|will|plays|runs|hates)\b)", "User's {k} is named {x}", "{k}", "people/family", goes_on=True),
    Row(rf"{_HAVE}{{COUNT}} (?:grown |small |young |little )?{{MANY_KIN}}(?:,|:| named| called) {{NAMES}}", "User's {k} is named {x}", "has_{k}", "people/family", many=True),
    Row(rf"{_HAVE}{{COUNT}} (?:older |younger |little |big |twin |grown |small |young )?{{MANY_KIN}}(?=\Z|[,;:()]| (?:and|who|with|but|in|at)\b)", "User has {n} {k}", "number_of_{k}", "people/family", object="{n}"),
    Row(rf"{_HAVE}an? (?:older |younger |little |big |twin )?{{KIN}},? (?:called|named) {{NAME}}", "User's {k} is named {x}", "{k}", "people/family"),
    Row(rf"{_MY}{{KIN}}(?:,? {_CAPITAL})? (?:now )?lives in {{PLACE}}", "User's {k} lives in {x}", "lives_in", "people/location", subject="user's {k}"),
    Row(rf"{_MY}{{KIN}}(?:,? {_CAPITAL})? works (?:at|for) (?:the )?{{NAME}}", "User's {k} works at {x}", "works_at", "people/work", subject="user's {k}"),
    Row(rf"{_MY}{{KIN}}(?:,? {_CAPITAL})? (?:is|works as) an? {{JOB}}", "User's {k} works as {x}", "works_as", "people/work", subject="user's {k}"),
    Row(rf"{_MY}{{KIN}}(?:,? {_CAPITAL})? is (?:\w{{1,15}}ly )?allergic to {{LIST}}", "User's {k} is allergic to {x}", "allergic_to", "people/health", subject="user's {k}", many=True),
    Row(rf"{_MY}{{KIN}}(?:,? {_CAPITAL})? is (?:a )?{{DIET}}", "User's {k} is {x}", "diet", "people/food", subject="user's {k}"),
    Row(rf"{_MY}{{KIN}}(?:'s birthday is(?: on)?| was born on) {{DATE}}", "User's {k}'s birthday is {x}", "birthday", "people/birthday", subject="user's {k}"),
    Row(rf"{_MY}{{KIN}}(?:,? {_CAPITAL})? is (?P<x>\d{{1,2}})(?: years old| months old)?(?=\Z|,| and\b)", "User's {k}'s age is {x}", "age", "people/age", subject="user's {k}"),
    Row(rf"{_AM}(?P<x>married|divorced|widowed|engaged|single)(?=\Z|,| (?:and|with|but|to)\b)", "User is {x}", "marital_status", "people/family"),
    Row(rf"(?P<k>{_CAPITAL})'s birthday is (?:on )?{{DATE}}", "{k}'s birthday is {x}", "birthday", "people/birthday", subject="{k}"),
    # animals
    Row(rf"{_HAVE}(?:got |adopted )?{{COUNT}} (?:new |old |young |rescue |indoor )?{{ANIMALS}}(?:,|:| named| called) {{NAMES}}", "User has a {k} named {x}", "has_{k}", "personal/pets", many=True),
    Row(rf"{_MY}{{ANIMAL}}(?:'s name)?{_IS}{{NAME}}", "User has a {k} named {x}", "has_{k}", "personal/pets"),
    Row(rf"{_MY}{{ANIMAL}},? (?P<x>{_CAPITAL})(?=\Z|[,;:()]| [a-z])", "User has a {k} named {x}", "has_{k}", "personal/pets", goes_on=True),
    Row(rf"{_HAVE}(?:got |adopted |own )?an? (?:\w{{1,15}} )?{{ANIMAL}},? (?:called|named) {{NAME}}", "User has a {k} named {x}", "has_{k}", "personal/pets"),
    Row(rf"{_HAVE}(?:got |adopted )?{{COUNT}} (?:new |old |young |rescue |indoor )?{{ANIMALS}}(?=\Z|[,;:()]| (?:and|who|with|but|in|at|from)\b)", "User has {n} {k}", "number_of_{k}", "personal/pets", object="{n}"),
    # health and food
    Row(rf"{_AM}(?:\w{{1,15}}ly )?allergic to {{LIST}}", "User is allergic to {x}", "allergic_to", "health/allergy", many=True),
    Row(rf"{_HAVE}(?:suffer from |had |was diagnosed with |been diagnosed with )?{{ILLNESS}}", "User has {x}", "has_condition", "health/condition"),
    Row(r"(?:I|we) (?:was|have been|were) diagnosed with {SHORT}", "User has {x}", "has_condition", "health/condition"),
    Row(rf"{_AM}(?:an? |now an? |now )?{{DIET}}", "User is {x}", "diet", "food/diet"),
    Row(r"(?:I|we) have been {DIET}", "User is {x}", "diet", "food/diet"),
    Row(r"(?:I|we) (?:do not|never|cannot) (?:eat|drink) {LIST}", "User does not eat or drink {x}", "avoids", "food/diet", many=True),
    Row(r"I (?:now )?take (?P<x>\d{1,4} ?(?:mg|mcg|iu|ml|g))(?: of)? (?P<k>[\w-]{3,30})", "User's dose of {k} is {x}", "dose_of_{k}", "health/medicine"),
    Row(r"I (?:now )?take (?P<k>[\w-]{3,30}),? (?P<x>\d{1,4} ?(?:mg|mcg|iu|ml|g))\b", "User's dose of {k} is {x}", "dose_of_{k}", "health/medicine"),
    # things
    Row(r"(?:I|we) drive (?:an? |my )?(?P<x>[\w.-]{1,20}(?: [\w.-]{1,20}){0,4}?)(?=\Z|,|;| (?:and|to|for|with|but|which)\b)", "User drives {x}", "drives", "things/car"),
    Row(r"(?:I|we) own (?:an?|one) {SHORT}", "User owns {x}", "owns", "things"),
    Row(rf"{_MY}(?:new |current |main )?{{THING}} is (?:now )?(?:an? |the )?(?:(?-i:[a-z]{{3,10}}) )?{{NAME}}", "User's {k} is {x}", "{k}", "things"),
    Row(rf"{_MY}(?:new |current |main )?{{THING}} is (?:now )?(?:an? )?(?P<x>\d{{4}} {_NAME}|[a-z]{{3,12}} \w{{0,8}}\d\w{{0,8}}){_PLACE_ENDS}", "User's {k} is {x}", "{k}", "things"),
    Row(r"I use (?:an?|my) (?P<x>(?:power |manual )?(?:wheel)?chair|cane|walking stick|hearing aids?|cpap|insulin pump|walker|crutches|screen reader)\b", "User uses {x}", "uses", "health/aid"),
    Row(rf"{_AM}(?:paying|subscribed) (?:for|to) {{NAMES}}", "User subscribes to {x}", "subscribed_to", "things", many=True),
    Row(r"(?:I|we) (?:pay for|subscribe to|have a subscription to) {NAMES}", "User subscribes to {x}", "subscribed_to", "things", many=True),
    # tastes
    Row(r"(?:my |our )?favou?rite (?P<k>[\w-]{2,20}(?: [\w-]{2,20})?) (?:is|are) (?:definitely |the )?{PHRASE}", "User's favorite {k} is {x}", "favorite_{k}", "preferences"),
    Row(rf"(?P<x>{_CAPITAL}(?: {_CAPITAL}){{0,3}}) is my favou?rite (?P<k>[\w-]{{2,20}}(?: [\w-]{{2,20}})?)(?=\Z|[,;])", "User's favorite {k} is {x}", "favorite_{k}", "preferences"),
    Row(r"(?:I|we) (?:have come to |now )?(?:love|adore) {LIST}", "User loves {x}", "loves", "preferences", many=True, stance="positive"),
    Row(r"(?:I|we) (?:like|enjoy) {LIST}", "User likes {x}", "likes", "preferences", many=True, stance="positive"),
    Row(rf"{_AM}(?:a )?(?:big |huge )?fan of {{LIST}}", "User likes {x}", "likes", "preferences", many=True, stance="positive"),
    Row(r"I am into {LIST}", "User likes {x}", "likes", "preferences", many=True, stance="positive"),
    Row(r"(?:I|we) collect {LIST}", "User collects {x}", "collects", "preferences", many=True),
    Row(rf"{_AM}(?:flying|travell?ing) to (?P<k>{_NAME}) (?:on |in )?{{DATE}}", "User travels to {k} on {x}", "date_of_trip_to_{k}", "plans"),
    Row(r"the (?P<k>(?:code|combination|number|password hint) (?:of|for) (?:my|our|the) [\w'-]{2,20}(?: [\w'-]{2,20})?) is (?:now )?{CODE}", "User's {k} is {x}", "{k}", "things"),
    Row(r"I (?:hate|cannot stand|detest|loathe) {LIST}", "User hates {x}", "hates", "preferences", many=True, stance="negative"),
    Row(r"I (?:dislike|do not like) {LIST}", "User dislikes {x}", "dislikes", "preferences", many=True, stance="negative"),
    Row(r"(?:I|we) (?:much )?prefer (?P<x>[\w'-]{2,20}(?: [\w'-]{2,20}){0,3}? (?:over|to|rather than) [\w'-]{2,20}(?: [\w'-]{2,20}){0,3}?)(?=\Z|[,;]| (?:because|since|when|for)\b)", "User prefers {x}", "prefers", "preferences"),
    Row(r"I (?:much )?prefer {PHRASE}", "User prefers {x}", "prefers", "preferences"),
    Row(rf"{_MY}hobb(?:y is|ies are) {{LIST}}", "User's hobby is {x}", "hobby", "preferences", many=True),
    Row(r"I play {PLAYED}", "User plays {x}", "plays", "preferences"),
    # money, numbers, days
    Row(r"(?:my|our|the|total) budget for (?P<k>(?:the |my |our )?[\w'-]{2,20}(?: [\w'-]{2,20}){0,3}?) is (?:now )?{AMOUNT}", "User's budget for {k} is {x}", "budget_for_{k}", "money/budget"),
    Row(r"(?:my|our|the) (?P<k>(?!total )[\w'-]{2,20}(?: [\w'-]{2,20}){0,3}?) budget is (?:now )?{AMOUNT}", "User's budget for {k} is {x}", "budget_for_{k}", "money/budget"),
    Row(rf"{_HAVE}(?:my|our|the|a)? ?(?:total )?budget (?:is|of) (?:now )?{{AMOUNT}}", "User's budget is {x}", "budget", "money/budget"),
    Row(rf"{_MY}(?:total )?budget is (?:now )?{{AMOUNT}}", "User's budget is {x}", "budget", "money/budget"),
    Row(rf"{_MY}(?P<k>[\w'-]{{2,20}}(?: [\w'-]{{2,20}}){{0,2}}?) (?:is|costs) (?:now )?{{AMOUNT}}", "User's {k} is {x}", "{k}", "money"),
    Row(r"(?:my|our|the) (?P<k>[\w'-]{2,20}(?: [\w'-]{2,20}){0,3}?) (?:is|starts|begins|takes place|will be) (?:now )?(?:on |at |in |from )?{DATE}", "User's {k} is on {x}", "date_of_{k}", "plans"),
    Row(r"(?:(?:I|we) (?:have |have got |got )?|got )(?:an?|my|our|the) (?P<k>(?:[\w'-]{2,20} ){0,3}?(?:appointment|interview|exam|test|viewing|lesson|surgery|operation|check-?up|meeting|flight|recital|hearing|wedding|deadline)) (?:is )?(?:on |at |in )?{DATE}", "User's {k} is on {x}", "date_of_{k}", "plans"),
    Row(r"the (?P<k>[\w'-]{2,20}(?: [\w'-]{2,20}){0,3}?) (?:is|are) due (?:now )?(?:on |by )?{DATE}", "The {k} is due on {x}", "due_on", "plans", subject="{k}"),
    Row(r"(?:my|our|the) (?:(?P<k>[\w'-]{2,20}(?: [\w'-]{2,20}){0,2}?) )?deadline (?:for (?P<n>[\w' -]{3,40}?) )?is (?:now )?(?:on )?{DATE}", "The {k}{n} deadline is {x}", "deadline", "plans", subject="{k}{n}"),
    Row(rf"{_AM}getting married (?:on|in) {{DATE}}", "User's wedding is on {x}", "date_of_wedding", "plans"),
    Row(rf"{_AM}(?:saving(?: up)?|training) for (?:an? |the )?{{SHORT}}", "User's goal is {x}", "goal", "plans"),
    Row(r"I weigh {NUMBER}", "User weighs {x}", "weight", "health/body"),
    Row(r"I am (?P<x>\d[\d.,]{0,4} ?(?:cm|m|feet|ft|foot)(?: \d{1,2})?)(?: tall)?(?=\Z|[,;]| and\b)", "User's height is {x}", "height", "health/body"),
    Row(r"I (?:usually |always )?(?P<k>get up|wake up|go to bed|start work|finish work) at {TIME}", "User's time to {k} is {x}", "{k}_at", "habits"),
    Row(rf"{_MY}(?P<k>[\w'-]{{2,20}}(?: [\w'-]{{2,20}}){{0,2}}?) (?:number|size|code|id|plate|seat|room|handle|username|email|postcode|zip)(?: is|'s) (?:now )?{{CODE}}", "User's {k} is {x}", "{k}", "things"),
    # work in software
    Row(r"(?:I|we) (?:now )?use (?P<x>(?-i:[A-Z])[\w.+#-]{0,20}(?: [\w.+#-]{1,20}){0,2}?) for (?P<k>(?:our |my |the |all )?[\w-]{2,20}(?: [\w-]{2,20}){0,2}?)(?=\Z|[,;]| (?:and|with|but)\b)", "User uses for {k}: {x}", "used_for_{k}", "work/tools"),
    Row(r"(?:I|we) (?:have )?decided (?:to (?:use|go with)|on) {PHRASE}", "User decided on {x}", "decided_on", "work/decisions"),
    Row(r"(?:I|we) (?:now |mostly |mainly |still )?use {NAMES}", "User uses {x}", "uses", "work/tools", many=True),
    Row(rf"{_MY}(?P<k>(?!(?:name|issue|question|problem|code|error|goal|point|guess|answer|idea|choice|concern|worry|bet|mistake|language|text|prompt|input|output|data|result)\b)[\w'-]{{2,20}}(?: [\w'-]{{2,20}}){{0,2}}?) is (?:now )?(?:called |named )?{{NAME}}", "User's {k} is {x}", "{k}", "things"),
    Row(r"(?P<x>(?:please |from now on,? |in future,? ){0,2}(?:always|never) (?:answer|reply|respond|write|give me|use|keep|add|show|format|explain|speak)\b.{2,120})", "User asks: {x}", "preference", "style"),
    Row(r"(?P<x>(?:please )?no (?:emojis?|bullet points|tables|exclamation marks|markdown|small talk|jargon|spoilers|headings)\b.{0,60})", "User asks: {x}", "preference", "style"),
    Row(r"to (?P<k>(?:deploy|release|roll back|restart|restore|publish|build|test|update|reset|back up|migrate) (?:the |our )?[\w./-]{2,30})(?:,|:| we| i) (?P<x>.{10,300})", "To {k}: {x}", "steps_to_{k}", "procedure", kind=Kind.PROCEDURAL),
    # other languages
    Row(r"(?:ich heiße|mein name ist) {NAME}", "User's name is {x}", "name", _OF),
    Row(r"ich (?:wohne|lebe)(?: jetzt)? in {NAME}", "User lives in {x}", "lives_in", "personal/location"),
    Row(r"ich arbeite(?: jetzt)? bei {NAME}", "User works at {x}", "works_at", "work/employer"),
    Row(r"ich bin (?P<x>vegan|vegetarier(?:in)?|veganer(?:in)?)\b", "User is {x}", "diet", "food/diet"),
    Row(r"(?:me llamo|mi nombre es) {NAME}", "User's name is {x}", "name", _OF),
    Row(r"vivo en {NAME}", "User lives in {x}", "lives_in", "personal/location"),
    Row(r"je m'appelle {NAME}", "User's name is {x}", "name", _OF),
    Row(r"j'habite (?:à |a )?{NAME}", "User lives in {x}", "lives_in", "personal/location"),
)  # fmt: skip

EVENTS = (
    ((r"(?:got|have|found|start|started|starting|landed) (?:an? |my )?(?:new job|different job)|changed jobs|laid off|got fired"
     r"|was fired|(?:quit|lost|left) my job|handed in my notice|(?:i|we) (?:have )?retired"), ("works_at", "works_as")),
    (r"got promoted|got a promotion|was promoted|my promotion", ("works_as",)),
    (r"(?:i|we) (?:have )?(?:moved (?:here|house|away|out|in|to)|relocated)|(?:my|our) new (?:flat|apartment|house|place)", ("lives_in", "address")),
    (r"(?:i|we) (?:now )?(?:eat|am eating|have started eating|started eating) (?:meat|fish|chicken|dairy|cheese|eggs)(?: again| now)", ("diet",)),
    (r"(?:i am|we are) (?:single again|divorced|separated)|broke up\b|got divorced|split up\b", ("wife", "husband", "girlfriend", "boyfriend", "partner", "fiancée", "fiancé", "marital_status")),
)  # fmt: skip
"""Events, and the questions whose old answers end with them when nothing new is said."""


SURE = 0.9
_MOST_WORDS = 9
_KIND = re.compile(r"\{([A-Z_]{2,20})\}")
_ARTICLE = re.compile(r"(?:an?|the|some|any)\s(?=\S)", re.IGNORECASE)
_JOIN = re.compile(r",? (?:and|or|&|as well as|plus) |, ?(?:and |or )?", re.IGNORECASE)
_SAYS_NOTHING = re.compile(
    r"\A(?:(?:my|our)\Z|i|me|it|its|that|this|these|those|them|they|he|she|him|her|his|their|we|us|you|your|yours|one"
    r"|ones|how|what|when|where|why|which|who|everything|nothing|something|anything|someone|anyone|some|none|there|here"
    r"|more|less|another|both|each|such|as|than|all|like|not|no|never|too|so|very|to|being|if|the first|the second"
    r"|option|options|version|idea|ideas|suggestion|suggestions|answer|answers|way|part|sound|look|looks|approach"
    r"|solution|example|plan|change|changes|thing|things|stuff|bit|lot|kind|sort|feeling|tone|draft|name|result|same"
    r"|rest|now|then|today|tomorrow|tonight|yesterday|done|sure|ok|okay|well|much|sorry|afraid|glad|home|night|nights"
    r"|mondays?|an? bit|ai)\b",
    re.IGNORECASE,
)
"""What a value does not begin with: it points elsewhere, or says nothing alone."""

_POINTS = re.compile(r"\b(?:i|me|you|your|it|its|this|that|these|those|he|she|him|her|his|they|them|their|us"
    r"|here|there|is|are|am|was"
                     r"|were|will|not|but|because)\b", re.IGNORECASE)  # fmt: skip
_NO_NAME = frozenset(
    """
    i i'm monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december ok okay english the a an not is and but so who which
    """.split()  # noqa: SIM905
)
_CAPITALS = re.compile(rf"(?:{ABBREVIATED})?[A-ZÀ-Þ][\w'’&+#-]{{0,30}}(?: [A-ZÀ-Þ][\w'’&+#-]{{0,30}}){{0,4}}")
_RELATIVE = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\btomorrow\b", re.IGNORECASE)


@cache
def patterns() -> tuple[re.Pattern[str], ...]:
    """The patterns of the table, in its order."""
    return tuple(re.compile(_written_out(row.pattern), re.IGNORECASE) for row in ROWS)


def _written_out(pattern: str) -> str:
    return r"\A(?:" + _KIND.sub(lambda kind: VALUES[kind[1]], pattern) + ")"


def stated(text: str, said_at: datetime) -> list[Extracted]:
    """What a plain clause states; nothing where no row fits, or where its value says nothing by itself."""
    statements: list[Extracted] = []
    for row, pattern in zip(ROWS, patterns(), strict=True):
        if (match := pattern.match(text)) is not None and (new := list(_candidates(row, match, said_at))):
            statements += new
            if not row.goes_on:
                break
    return statements


def _candidates(row: Row, match: re.Match[str], said_at: datetime) -> Iterator[Extracted]:
    groups = {name: text for name, text in match.groupdict("").items() if name != "x"}
    if any(_POINTS.search(text) for text in groups.values()):
        return
    if row.content.endswith(": {x}") and row.category in ("style", "procedure"):
        yield _statement(row, groups, match["x"], said_at)
        return
    value = match.groupdict().get("x") or groups.get("n", "")
    values = _JOIN.split(value) if row.many else [value]
    if not all(map(is_value, values)):
        return
    for item in values:
        if _fits(row, item):
            yield _statement(row, groups, _third_person(item), said_at)


def is_value(text: str) -> bool:
    """Whether a value says something by itself: it does not point to what stands elsewhere."""
    bare = _ARTICLE.sub("", text.strip(), count=1)
    if not bare or MASK in bare or "://" in bare or len(bare.split()) > _MOST_WORDS:
        return False
    return _SAYS_NOTHING.match(bare) is None and _POINTS.search(bare) is None and any(map(str.isalnum, bare))


def _fits(row: Row, value: str) -> bool:
    """Whether what stands where a name is asked for is one; in a table of names the value begins with a capital."""
    if row.category == "preferences" and value.lower().startswith("the "):
        return False  # "the clip-path" is that of the talk
    is_name = any(kind in row.pattern for kind in ("{NAME}", "{NAMES}", "{PLACE}"))
    is_name = is_name or row.predicate in ("{k}", "has_{k}")
    return not is_name or value.split(maxsplit=1)[0].casefold().strip(",.") not in _NO_NAME


def _third_person(value: str) -> str:
    return re.sub(r"\b(?:my|our)\b", "their", value.strip(" ,.'\"-"), flags=re.IGNORECASE)


def _statement(row: Row, groups: Mapping[str, str], value: str, said_at: datetime) -> Extracted:
    groups = {name: singular(text) if row.many else text for name, text in groups.items()}
    words = {name: _third_person(text) for name, text in groups.items()}
    bare = {name: re.sub(r"^(?:their|the|an?) ", "", text, flags=re.IGNORECASE) for name, text in words.items()}
    value = f"{value}{_day_of(value, said_at)}" if "{DATE}" in row.pattern else value
    fields = words | {"x": value}
    slugs = {name: "_".join(text.casefold().split()) for name, text in bare.items()}
    item = row.object.format_map(fields)
    return Extracted(
        content=f"{row.content.format_map(fields)}.",
        kind=row.kind,
        subject=" ".join(row.subject.format_map(words).split()),
        predicate=row.predicate.format_map(slugs),
        object=item,
        stance=row.stance,
        category=row.category,
        entities=tuple(_names_in(value)),
        confidence=SURE,
    )


def _day_of(value: str, said_at: datetime) -> str:
    if not _RELATIVE.search(value):
        return ""
    named = re.sub(r"\b(?:next |this |coming ){0,2}(\w+day)\b", r"next \1", value, count=1, flags=re.IGNORECASE)
    spans = spans_in_statement(named, said_at)
    return f" ({spans[0].start.date().isoformat()})" if len(spans) == 1 else ""


def _names_in(text: str) -> list[str]:
    """The names in a value: runs of capitalised words, an abbreviation before them included."""
    named = (name for name in _CAPITALS.findall(text) if name.casefold() not in _NO_NAME)
    return [name for name in named if not is_abbreviation(name, stops=f"{name}." in text)]
