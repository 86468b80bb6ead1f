"""Whether a statement can stand alone in a memory: a whole sentence, of a life and not of the moment or the talk.

The last test, whichever rule made the statement: it looks at what was written down, not at the words that led to it.
What fails it is not kept as a fact; the turn itself is, and is found by its words.
"""

import re

import msgspec

from memproxy.core.memory import Kind
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.habits import PAST
from memproxy.learn.rules.values import names_in
from memproxy.learn.rules.words import PEOPLE, PETS

_BREAKS_OFF = re.compile(
    r" (?:an?|the|of|with|and|or|by|about|as|from|being|than|that|which|who|whose|because|if|is|are|was|were|be|"
    r"more of|their|its|some|very|quite|no|not|see|up to)\.$",
    re.IGNORECASE,
)
"""The sentence was cut within a phrase."""

_CUT_COLLECTION = re.compile(
    r" (?:mix|combination|blend|variety|range|habit|set|series|selection) of (?:[\w-]+ )?[\w-]+\.$", re.IGNORECASE
)
"""“A mix of vintage” (and modern cameras)."""

_MISREAD = re.compile(
    r"User (?:is|are|was|were) (?:able|likely|about|supposed|bound|unable) to\b|User (?:is|was) (?:let|kept)\b"
    r"|User (?:lasts|alreadys|justs|finallies|currentlies|evers|oftens|nevers|lets|somehows) "
    r"|User plays to |User uses (?:with|in|on|for|at) |User uses (?:watching|reading|using|doing|playing|listening)\b"
    r"|User wants (?:let|switch|still|turn|go|change|move|head|hand|come|look|start|take) \w* ?rather than\b"
    r"|User (?:wills|cans|coulds|shoulds|mights|mays|musts|shalls) [a-z]|User is all [a-z]+ing\b"
    r"|User wants let us\b|User always wants (?:they|you|he|she|it|we)\b|User prefers .+ (?:is|are) [a-z]+ over ",
)
"""Words that a rule put together and nobody said so."""

_PLACEHOLDER = re.compile(r"\[[A-Za-z][\w ]*\]|__|<[a-z_ ]+>")
_NOTHING_DONE = re.compile(
    r"User is (?:hosting|making|writing|building|using|having|planning|giving|taking|reading|considering|developing|"
    r"doing|buying|getting|seeing|creating|throwing|bringing|wearing|facing)"
    r"(?: (?:soon|now|next|this|in|on|at|for|with|tomorrow|tonight|right)\b.*)?\.$"
    r"|User (?:is planning to|tends to|plans to|wants to) (?:visit|go|attend|struggle|do|get|make|use|buy|try)"
    r"(?: (?:soon|next|this|on|tomorrow|early|in the)\b.*)?\.$"
    r"|User \w+(?: every time)?\.$"
)
"""What is done was said before ("a summer party I'm hosting soon")."""

_OF_THE_MOMENT = re.compile(
    r"User (?:(?:continues|deserves|envisions|strives|hesitates)\b|(?:is|are|was|were|feels|has been) "
    r"(?:(?:really|so|very|also|particularly|especially|quite|pretty|specifically|currently|just|more|most|still|"
    r"not|a bit|super|too|rather|definitely|actually|always|mainly|mostly) )*"
    r"(?:interested in|excited|thrilled|curious|intrigued|inspired|hyped|impressed|glad|"
    r"happy (?:to|that|with the|about)|"
    r"sorry|hopeful|hesitant|sure\b|unsure|certain|ready|all set|set for|willing|"
    r"comfortable with (?:it|that|the|trails)|"
    r"open to|amazed|surprised|grateful|thankful|relieved|confused|wondering|leaning|considering|inclined|eager|"
    r"hoping|aware|fascinated|overwhelmed|concerned|frustrated with (?:the|this)|disappointed|convinced|tempted|"
    r"determined to|looking|"
    r"stuck|lost|done(?! with)|back|late|early|here|there|ok|okay|fine|good|well|busy|tired|hungry|thirsty|"
    r"bored|proud|jealous|"
    r"a (?:monster|genius|mess|wreck|failure|idiot|fool|legend|star|hero|hot mess|believer|disaster|zombie|wimp|"
    r"beast|bit|little)|"
    r"undecided|in the process of|familiar with|learning the ropes)"
    r"(?![\w-]))"
)
"""What somebody feels of the matter at hand, or is for an hour; figures of speech."""

_OF_THE_TALK = re.compile(
    r"User (?:does not like|likes|loves|dislikes|hates|prefers|is a fan of|is not a fan of) (?:the|that|those|these) "
    r"(?:[a-z'-]+ ){0,4}(?:ideas?|names?|suggestions?|options?|versions?|concepts?|vibes?|tones?|looks?|designs?|"
    r"feelings?|sounds?|styles?|flavou?rs?|titles?|approach(?:es)?|plans?|themes?|colou?r schemes?|wording|layouts?|"
    r"lines?|endings?|intros?|paragraphs?|structures?|drafts?|examples?)\b"
    r"|User (?:likes|loves|is a fan of) .* (?:ideas|suggestions|options|recommendations)\.$"
)
"""What is liked of something both have before them."""

_HAS_PASSING = re.compile(
    r"User has a (?:\w+ )?new job\.$|User (?:has|got) (?:(?:a|an|the|some|no|any|many|several|only|another|one|"
    r"two|three|a few|a couple of|a lot of|"
    r"a ton of|lots of|plenty of) )*"
    r"(?:(?:good|great|quick|new|big|small|nice|cool|amazing|little|specific|particular|real|pretty|solid|really|huge|"
    r"very|different|same|other|own|bad|rough|bogus|fraudulent|weird|strange|slight|general|vague|major|minor|free|"
    r"leftover|spare|extra|simple|clear|hard|tough|\d[\d:]*(?: ?[ap]m)?|super|runny|bs) )*"
    r"(?:deals?|confessions?|points?|leftovers?|ideas?|shots?|receipts?|materials?|feelings?|hunch(?:es)?|chances?|"
    r"concerns?|suggestions?|thoughts?|doubts?|requests?|favou?rs?|preferences?|interests?|experience|questions?|"
    r"meetings?|transactions?|charges?|purchases?|problems?|issues?|troubles?|time|luck|fun|access|options?|choices?|"
    r"reservations?|updates?|news|messages?|notes?|plans?|reasons?|pieces?|ones?|successe?s?|progress|setup|goals?|"
    r"views?|likes?|shout-?outs?|gifts?|tips?|opportunit(?:y|ies)|impression|list|nose|rash|stuff|things?|lot|friend|duplicates?|"
    r"tables? [a-z]+)"
    r"(?= (?:in|of|on|for|from|with|about|to|at|that|which|who|there|here|here|last|this|through|left)\b|\.$)"
)
"""What is had only for as long as it is spoken of."""

_NO_THING = re.compile(
    r"User (?:bought|has|got|uses|owns|ordered|wants|likes|loves|prefers|needs|found|picked|chose) "
    r"(?:an?|the|some|their)? ?(?:[a-z]+ )?(?:one|ones|two|three|four|couple|pair|bunch|lot|few|kind|type|amount)\.$"
)
_POINTS = re.compile(
    r"\b(?:current|last|old|other|same|next|previous|first) one\b|"
    r" (?:this|these|those|there|here)(?: (?:soon|again|now|too|for|by|with|since|in|at|on|and)\b|\.$)"
    r"| (?:that one|this one|those ones|than (?:her|him|it|that|this)|(?:her|him|its?)\.$|"
    r"(?:for|to|with|from|about|see|seeing|get|got|give|tell) (?:him|her)\b(?! own))",
    re.IGNORECASE,
)
"""What it speaks of was said elsewhere."""

_NARRATES = re.compile(
    r", (?:the user|whoever [^,]{3,30}?) does (?:it )?this(?: way)?: "
    r"(?:(?:also|then|just|only|recently|really|never) )*(?P<verb>[a-z]+)\b"
)
_NOT_DONE = frozenset(
    """
    might may would could should will can am are think guess hope wish want feel know believe plan hate love like need
    realize
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
_NO_GOAL = re.compile(
    r"User (?:thinks?|will|would|should|could|was|has|had|is|perfected|finished|started|tried|ended|went|made|got|"
    r"improved|managed|(?:\w+ed))\b.* by \w+ing\b|User (?:thinks?|guesses|supposes|believes) they (?:will|would|can)\b"
)
_NO_SENTENCE = re.compile(
    r"[a-z\d]|(?:On|In|At|For|With|From|And|But|Or|Of|By|Which|To|As|Since|While|Because)\b"
    r"(?: which\b|(?!.* (?:is|are|has|have|will|was|were|goes|comes|starts)\b))"
)
"""How no statement of its own begins; a procedure may."""

_HAS_NAME = re.compile(
    r"User has (?P<name>(?:The )?(?-i:[A-Z][a-z]+(?<!'s))(?: (?:of |and |& )?(?-i:[A-Z])[a-z]+)*)\.$"
)
"""“Tokyo, Kyoto and Osaka”: what somebody has of a name without an article is its end of a list."""

_WHOSE = re.compile(r"User (?P<before>.*?)\b(?:her|his|him)\b")
_PERSON = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, PEOPLE | PETS.keys())))})s?\b", re.IGNORECASE)
_WHILE_THERE = re.compile(r"\b(?:while|when|once|if|until|after) (?:I|we)(?:['’]m| am|['’]re| are) in\b", re.IGNORECASE)
_OF_THE_USER = re.compile(r"\bI\b|\b(?:my|our|we|me|us|mine|ours)\b", re.IGNORECASE)
_MEMO = re.compile(
    r"\W*(?:please |can you |could you )*(?:note|remember|keep in mind|save|memori[sz]e)\b", re.IGNORECASE
)


_WHEN_GOT = re.compile(
    r"(?<=\w) (?:(?:about |around |just )?(?:an?|one|two|three|four|five|six|several|a few|a couple of|\d+) "
    r"(?:days?|weeks?|months?|years?) ago|last (?:week|weekend|month|year|night|summer|winter|spring|autumn|fall)|"
    r"yesterday|recently|on (?-i:[A-Z])[a-z]{2,8} \d{1,2}(?:st|nd|rd|th)?)\.$"
)
"""When somebody came by what he has: "has" tells of today."""


_WHEREABOUTS = re.compile(r"User(?:'s [a-z]+)? (?:is|are) (?:at|with) (?:the )?(?-i:[A-Z])[^,;]*\.$")
_AT_SOMEBODYS = re.compile(
    r"User(?:'s [a-z]+)?(?: [A-Z]\w+)? (?:is|are) (?:at|with|staying at) (?:their|his|her) \w+'s\b"
)
_ON_THE_WAY = re.compile(
    r"User is on (?:the|a) (?:\d{1,2}[:.]\d\d|train|bus|tram|plane|ferry|flight|phone|way|sofa|couch|motorway|tube)\b"
)
_NOW = re.compile(r"\b(?:now|right now|today|tonight|currently|at the moment|just)\b", re.IGNORECASE)
"""Where somebody is now (a gate, a shop, at Lisa's) is of the moment."""

_POINTING_TAIL = re.compile(
    r"(?<=\w), (?:my |our |their )?(?:very )?(?:first|second|last|current|old) one(?: [a-z]+)?\.$"
)
"""“The Rotterdam marathon, first one ever”: what only points is no part of it."""

_CUT_RELATIVE = re.compile(r"(?<=\w) that (?!much\b|one\b|day\b|year\b|way\b)\w+\.$")
"""“Fungi that live” (in wet plaster): what is left of a relative clause."""

_TWICE = re.compile(r"\b(every|the|an?|in|at|of|to|on|for) \1\b")
_RUN_ON = re.compile(
    r"(User (?:lives in|is from|is moving to|moved to|works at) (?-i:[A-Z])[\w'-]*(?: (?-i:[A-Z])[\w'-]*)*) "
    r"(?:the|my|our|their|we|he|she|they|it|everything|nothing|nobody|everybody) .*"
)
"""“Since we moved to Antwerp the commute is hell”: where another clause begins without a comma."""

_MANY_IS = re.compile(r"^(User's (?:girls|boys|kids|twins|sons|daughters|children|parents|brothers|sisters)) is\b")


def sound(stated: Extracted) -> Extracted | None:
    """The statement or correction, put right where only its form is wrong; None where it is not whole, or only of the
    moment. What takes something back stays as it is.
    """
    if stated.intent is Intent.FORGET:
        return stated
    tidy = _tidied(stated)
    return tidy if _is_whole(tidy.content) and _lasts(tidy) else None


def _tidied(stated: Extracted) -> Extracted:
    content = re.sub(r"^User were\b", "User was", stated.content)
    if content.startswith("User has ") and not content.startswith("User has been "):
        content = _WHEN_GOT.sub(".", content)
    content = _TWICE.sub(r"\1", _RUN_ON.sub(r"\1.", content))
    content = _CUT_RELATIVE.sub(".", _MANY_IS.sub(r"\1 are", content))
    content = _POINTING_TAIL.sub(".", content)
    if content == stated.content:
        return stated
    value = stated.object
    if value is not None and (whole := _RUN_ON.match(stated.content)) is not None and whole[1] != content:
        value = next((name for name in names_in(whole[1][5:]) if value.startswith(name)), value)
    for ending in (_WHEN_GOT, _CUT_RELATIVE, _POINTING_TAIL):
        value = value and ending.sub(".", f"{value}.").rstrip(".")
    return msgspec.structs.replace(stated, content=content, object=value)


def _is_whole(content: str) -> bool:
    return not (
        _BREAKS_OFF.search(content)
        or _CUT_COLLECTION.search(content)
        or _MISREAD.match(content)
        or _PLACEHOLDER.search(content)
        or _NOTHING_DONE.match(content)
    )


def _lasts(stated: Extracted) -> bool:
    content = stated.content
    if stated.kind is Kind.PROCEDURAL or (stated.predicate or "").startswith("how_to_"):
        return not (_narrates(content) or _NO_GOAL.match(content))
    return not (
        _OF_THE_MOMENT.match(content)
        or _OF_THE_TALK.match(content)
        or _HAS_PASSING.match(content)
        or _NO_THING.match(content)
        or _ends_a_list(stated)
        or _POINTS.search(content)
        or _is_somebodys(content)
        or _is_general(stated)
    )


def _narrates(content: str) -> bool:
    """Whether what looks like a procedure tells what was done once, or is thought."""
    match = _NARRATES.search(content)
    return match is not None and (match["verb"].endswith("ed") or match["verb"] in PAST | _NOT_DONE)


def _ends_a_list(stated: Extracted) -> bool:
    """Whether what is had is only the last of what something else was of."""
    match = _HAS_NAME.match(stated.content)
    had = (
        rf"\b(?:have|got|['’]ve|has) (?:\w+ |(?:(?-i:[A-Z])\w+(?:,? and|,) )+)?{re.escape(match['name'])}"
        if match
        else ""
    )
    return match is not None and re.search(had, " ".join(stated.evidence), re.IGNORECASE) is None


def _is_somebodys(content: str) -> bool:
    """Whether it says "her" or "his" of somebody that it does not name."""
    match = _WHOSE.match(content)
    return match is not None and not names_in(f"x {match['before']}") and _PERSON.search(match["before"]) is None


def _is_general(stated: Extracted) -> bool:
    """Whether a sentence that opens as a note speaks of the world, and not of the user; or is none; or says where
    somebody is just now.
    """
    if _ON_THE_WAY.match(stated.content) is not None or _AT_SOMEBODYS.match(stated.content) is not None:
        return True
    if _WHEREABOUTS.match(stated.content) is not None and _NOW.search(" ".join(stated.evidence)) is not None:
        return True
    if stated.predicate == "is_in" and _WHILE_THERE.search(" ".join(stated.evidence)) is not None:
        return True
    if (stated.predicate or "").startswith("told_") and _NO_SENTENCE.match(stated.content) is not None:
        return True
    if not (stated.predicate or "").startswith("told_") or not stated.evidence:
        return False
    evidence = " ".join(stated.evidence)
    return _MEMO.match(evidence) is not None and not _OF_THE_USER.search(evidence) and not re.search(r"\d", evidence)
