"""Taking back and ending in general: any word of ending, with the noun it is about, ends what is known of that noun.

After the special forms (`retractions`). A request that names nothing ("please don't store that") means what was stated
last; an ending that names nothing ("I sold it") the thing owned, booked or planned that was stated last.
"""

import re
from collections.abc import Iterator

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.ledger import Ledger, forgotten, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.values import names_in

_POLITE = (
    r"(?:(?:please|can you|could you|you can|kindly|just|now|then|so|also|and|actually|oh|I want you to|I would like "
    r"you to) )*"
)
_KEEP = r"(?:keep|store|save|remember|retain|note|record|hold on to|memori[sz]e)"
_NOT_KEEP = (
    rf"(?:do not {_KEEP}|stop {_KEEP}(?:ing|ring)?|no need to {_KEEP}|you (?:do not need|need not) (?:to )?{_KEEP}|"
    rf"(?:I|we) (?:prefer|would rather|would prefer|prefer to|rather)(?: that)? you (?:did not|do not|not) {_KEEP}|"
    rf"(?:I|we) (?:prefer|would rather|would prefer) (?:it )?if you (?:did not|do not) {_KEEP}|"
    r"forget|ignore|disregard|delete|remove|erase|scrap|drop|discard|wipe|clear|never mind|strike|undo)"
)
_LAST = re.compile(
    rf"{_POLITE}{_NOT_KEEP}(?: about)? (?:that|this|it|all (?:of )?(?:that|this|it)|that one|what I just (?:said|"
    rf"told you|wrote)|my last "
    r"(?:message|sentence|statement|comment)|that last (?:bit|part|thing|one|message))"
    r"(?:,? (?:please|again|ok|okay|thanks|sorry|from (?:your )?memory|in (?:your )?memory|either|"
    r"anymore))*(?:[.!]?$|[,.:;-] .+)",
    re.IGNORECASE,
)
_IDIOM = re.compile(r"\bset (?:it|and) (?:and )?forget\b", re.IGNORECASE)
_NAMED = re.compile(
    rf"{_POLITE}{_NOT_KEEP} (?:about |(?:what|everything|anything|all|that|whatever)(?: (?:that )?(?:I|we|you) "
    rf"(?:have )?"
    r"(?:just )?(?:said|told you|mentioned|wrote|know|shared|remember|have))? (?:about|on|of|regarding) |(?:the|that) "
    r"(?:thing|bit|part|stuff|comment|fact|note) (?:about|on|with|that) |the fact that )?"
    r"(?P<x>(?:(?:my|our|the|that|his|her|their) )?\w.*)",
    re.IGNORECASE,
)
_JOKED = re.compile(
    r"(?:I|we) (?:was|were|am) (?:only |just |obviously )*(?:joking|kidding|lying|exaggerating|messing) about "
    r"(?P<x>.+)",
    re.IGNORECASE,
)
_OURS = re.compile(r"\b(?:my|our|about|told|said|know|the (?:thing|bit|part|stuff|comment|fact|note))\b", re.IGNORECASE)
_ENDING = (
    r"(?:quit|stopped|came off|come off|went off|gave up(?: on)?|given up(?: on)?|cancel+ed|called off|sold|got rid "
    r"of|gave away|given away|"
    r"dropped(?: out of)?|left|ended|returned|rehomed|rehome|lost|donated|done with|finished with|through with|broke "
    r"off|unsubscribed from|deleted|uninstalled|ditched|abandoned|scrapped|resigned from|retired from|moved out of|"
    r"got out of|threw (?:out|away)|backed out of|pulled out of|closed|shut down|withdrew from|terminated|let go of|"
    r"wound (?:down|up)|wrapped up|packed in|folded|discontinued|axed|shelved|bowed out of|pulled the plug on|"
    r"handed in|"
    r"dissolved|stepped down (?:from|as)|stepping down (?:from|as)|let me go from|took me off|no longer (?:have|own|"
    r"use|"
    r"do|play|go to|take|need|live in|work (?:at|for|in|as)|in|at|on|with|"
    r"a|an|the|part of|into|attend|teach|see|want|plan(?:ning)?(?: on| to)?))"
)
_VERB_FIRST = re.compile(
    rf"(?:(?:(?:I|we)\b|(?P<who>(?:my|our|the) (?:\w+ ){{1,2}}?|(?:they|he|she)\b|(?-i:[A-Z])[\w.]+(?: "
    rf"(?-i:[A-Z])\w+)?))\s?(?:have |had to |am |are |just |finally |recently |has |was "
    rf"|were |decided to |got )*)?(?P<verb>{_ENDING}) (?P<x>.+)",
    re.IGNORECASE,
)
_OVER = (
    r"(?:(?:is|are|was|were|has been|have been|got|has|have|had)(?: (?:now|all|already|been|officially|sadly))*"
    r" )?(?:cancel+ed|called off|off(?! (?:on|in|at|by|limits|the|topic))|over(?! \w)|over(?= for (?:me|us|good|"
    r"now)\b)|gone|no more|history|disbanded|"
    r"dissolved|broke up|split up|fell through|fallen through|not happening|no longer happening|(?:not|no longer) "
    r"(?:true|right|correct|"
    r"valid|accurate|a thing|the case|relevant)|moved out|broke down|was stolen|stolen|sold|ended|shut down|"
    r"closed down|expired|ran out|finished|completed?|done with|died|packed up|conked out|gave up the ghost|a joke|"
    r"made up|a lie|not on anymore|dead|outdated|out of date|wrong)(?: (?:now|anymore|any more|after "
    r"all))?"
)
_NO_MORE = re.compile(
    r"(?:(?:so|and|there (?:is|are|will be)|it is|I have|we have) )*no (?:more (?P<x>[^,;.]+)|(?P<y>[^,;.]{2,40}?) "
    r"(?:after all|anymore|at all)(?=$|[,;.!]))",
    re.IGNORECASE,
)
_AFTER_ALL = re.compile(r"[,;:] (?:so |and |but )?(?P<x>no [^,;.!?]{2,40}? after all[.!]?$)", re.IGNORECASE)
_NOUN_FIRST = re.compile(
    rf"(?P<x>(?:(?:my|our|the|that|this|those) )?[\w'’-]+(?: [\w'’-]+){{0,6}}?) {_OVER}"
    r"(?=$|[.,!;]| (?:so|because|since|last|this|yesterday|in|and|too|unfortunately|due|as|when|after|over the|"
    r"during|at the|before|on|for (?:me|us|good|now))\b)",
    re.IGNORECASE,
)
_NOT_ANYMORE = re.compile(
    r"(?:I|we) (?:(?:am|are|do|can|will)? ?(?:not|cannot)|no longer)(?: anymore)? (?:have|own|use|do|play|go to|take|"
    r"in|"
    r"at|on|with|see|attend|teach|live|work|a member of|part of|get|want|need|eat|drink|drive|speak|study|learn|"
    r"visit|run|teach|support|pay for)? ?(?!like |love |enjoy |prefer |care |think |feel |know |believe |mind |trust "
    r")(?P<x>[^,;]+?)(?: (?:anymore|now|at the moment|these days))(?=$|[.,!; ])"
    r"|(?:I|we) (?:am|are) not anymore (?:in |at |a |an |with |on |the )*(?P<y>[^,;]+)",
    re.IGNORECASE,
)
_TAKEN = re.compile(
    r"(?:somebody|someone|they|a [\w ]{2,20}?|(?-i:[A-Z])\w+) (?:has |have |just |finally )*(?:bought|took over|"
    r"took|stole|"
    r"collected|picked up|adopted) (?P<x>(?:my|our) .+)",
    re.IGNORECASE,
)
_UNTOUCHED = re.compile(
    r"(?:I|we) have not (?:touched|had|smoked|drunk|eaten|used|played|seen|done|been to|been on|gone to|set foot in) "
    r"(?:an? |any |the |my |our |one |a single )*(?P<x>[\w' -]{2,30}?) (?:since|in (?:over |about )?(?:\d+|an?|"
    r"two|three|four|five|"
    r"six|many|several) (?:weeks|months|years)|for (?:\d+|two|three|four|five|six|many|several) (?:weeks|months|"
    r"years))\b",
    re.IGNORECASE,
)
_IT = re.compile(
    r"(?:it|them|that|this|that one|him|her|those)(?=$|[.,!;]| (?:yesterday|last|this|already|because|so|when|in|on|"
    r"for|"
    r"and|now|today|again|since|a (?:week|month|year|while))\b)",
    re.IGNORECASE,
)
_CUT = re.compile(
    r"[,;:!?.](?:\s|$)|\s+(?:in|on|at|last|this|because|after|when|for|btw|since|so|and|but|yesterday|today|again|as|"
    r"with|until|during|before|from|to|cold turkey|completely|entirely|thing|stuff|business|bit|part|of course|now|"
    r"anymore|anywhere|please|already|ages|"
    r"years|months|weeks|a (?:week|month|year|while|few))\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"^(?:(?:with|about|I (?:have|own|am|use|do|go|play)|my|our|the|that|this|those|these|his|her|their|all|any|a|an|"
    r"using|playing|doing|going|taking|"
    r"eating|being|having|learning|working|drinking|studying|old) )+",
    re.IGNORECASE,
)
_TOO_COMMON = frozenset(
    {"thing", "stuff", "one", "home", "house", "time", "money", "day", "work", "message", "question", "file", "code"}
    | {"user", "draft", "line", "row", "column", "function", "branch", "tab", "page", "image", "section", "answer"}
)
_GENERIC = frozenset(
    {
        "group",
        "programme",
        "program",
        "course",
        "club",
        "order",
        "kit",
        "class",
        "membership",
        "subscription",
        "lesson",
        "account",
    }
    | {
        "contract",
        "plan",
        "project",
        "full",
        "whole",
        "entire",
        "old",
        "diet",
        "series",
        "team",
        "deal",
        "lease",
        "gig",
    }
)
"""Nouns that say of what sort something is, and need not have been said when it was first told."""

_HELD = re.compile(
    r"(?:owns|drives|has_|subscription|member|renting|planning|booked|trip|date_of|plays|takes|uses|car|phone|laptop|"
    r"bought|got|taking|runs|lease)",
    re.IGNORECASE,
)
_DOES_NOT_END = re.compile(
    r"\b(?:almost|nearly|if|would|could|might|want to|going to|thinking|should|never)\b|^one of (?:my|our|the)\b",
    re.IGNORECASE,
)
_MOST_ENDED = 6
_NEAR = 4
"""Sentences back in which "it" was spoken of."""


def _with_no(clause: Clause) -> str:
    """The clause with its "no", where that was taken for the word of a correction; from "no ... after all" on."""
    text = clause.text.strip()
    lost = text.startswith("more ") and re.search(r"\bno more\b", clause.evidence, re.IGNORECASE)
    if not lost and re.search(r"\b(?:after all|any ?more)[.!]?$", text):
        lost = re.search(rf"\bno {re.escape(text[:12])}", clause.evidence, re.IGNORECASE)
    text = f"no {text}" if lost else text
    none = _AFTER_ALL.search(text)
    return text[none.start("x") :] if none is not None else text


_MEANWHILE = re.compile(r"(?<=\w) (?:finally|sadly|officially|unfortunately) (?=[a-z])", re.IGNORECASE)


def endings(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """What a clause takes back or ends; nothing where nothing known is clearly meant."""
    text = _MEANWHILE.sub(" ", _with_no(clause))
    if _LAST.match(text) is not None and _IDIOM.search(clause.evidence) is None:
        yield from _last_said(ledger)
        return
    joked = _JOKED.match(text)
    if joked is not None:
        yield from _known(joked["x"], ledger)
        return
    asked = _NAMED.match(text)
    if asked is not None and _OURS.search(text[: asked.start("x") + 5]) is not None:
        yield from _known(asked["x"], ledger)
        return
    if _DOES_NOT_END.search(text) is not None:
        return
    if (untouched := _UNTOUCHED.match(text)) is not None:
        topic = re.sub(r"^(?:cigarettes?|smokes?|fags?|ciggies)$", "smokes", untouched["x"], flags=re.IGNORECASE)
        yield from _known(topic, ledger)
        return
    for pattern in (_TAKEN, _NOT_ANYMORE, _NO_MORE, _VERB_FIRST, _NOUN_FIRST):
        match = pattern.match(text)
        named = match.groupdict() if match is not None else {}
        said = next((named[group] for group in ("x", "y") if named.get(group)), None)
        if said is not None:
            it = _IT.match(said)
            found = list((_named_in(clause.evidence, ledger) or _thing(ledger)) if it else _known(said, ledger))
            if (
                named.get("who")
                and (_OWN_DOING.match(named["verb"]) or _THEIRS.match(said))
                and not _OURS_TOO.match(said)
            ):
                found = _of_whom(named["who"], found)
            yield from found
            if found:
                return


_OWN_DOING = re.compile(
    r"quit|stopped|gave up|given up|dropped(?: out)?|left|resigned|retired|moved out|got out|backed out|pulled out|"
    r"withdrew|bowed out|stepp(?:ed|ing) down|handed in|unsubscribed|uninstalled|lost|ditched|abandoned|packed in|"
    r"done with|finished with|through with|no longer",
    re.IGNORECASE,
)
"""What whoever does it ends of his own alone."""

_THEIRS = re.compile(r"(?:his|her|their)\b", re.IGNORECASE)
_OURS_TOO = re.compile(r"(?:my|our|me|us)\b", re.IGNORECASE)


def _of_whom(who: str, found: list[Extracted]) -> list[Extracted]:
    """What is told of somebody else, where he ends something of his own; of "she" alone what is told of one only."""
    others = [one for one in found if (one.subject or "user") != "user"]
    if re.fullmatch(r"(?:they|he|she)\s*", who, re.IGNORECASE):
        return others if len(others) == 1 else []
    wanted = terms(who)
    return [one for one in others if wanted and wanted <= _told(one)]


def _named_in(sentence: str, ledger: Ledger) -> list[Extracted]:
    """What is known of the one name that a sentence has ("PyCharm got too heavy, so I ditched it")."""
    names = frozenset(names_in(f"x {sentence}"))
    held = [one.statement for one in ledger.newest() if names & frozenset(names_in(one.statement.content[5:]))]
    return [forgotten(one) for one in held if _HELD.match(one.predicate or "")][:1]


def _last_said(ledger: Ledger) -> Iterator[Extracted]:
    """What the conversation stated last, all of that sentence."""
    said = [one for one in ledger.newest() if one.turn >= 0]
    for one in said:
        if one.turn == said[0].turn and one.statement.evidence == said[0].statement.evidence:
            yield forgotten(one.statement)


def _thing(ledger: Ledger) -> Iterator[Extracted]:
    """The thing stated last that can be sold, cancelled or given up, as long as it is spoken of."""
    spoken_of = frozenset[str]().union(*ledger.heard[-_NEAR:])
    for one in [held for held in ledger.newest() if held.turn >= 0][:3]:
        if _HELD.match(one.statement.predicate or "") and one.told & spoken_of:
            yield forgotten(one.statement)
            return


def _known(said: str, ledger: Ledger) -> Iterator[Extracted]:
    """The statements that hold every noun of what is named, else those that hold two thirds of them."""
    plain = _LEAD.sub("", said.strip())
    if (cut := _CUT.search(plain)) is not None and cut.start() > 1:
        plain = plain[: cut.start()]
    wanted = terms(plain) - _TOO_COMMON
    if not wanted or len(wanted) > 5:
        return
    told = [(one.statement, _told(one.statement)) for one in ledger.newest()]
    held = [one for one, words in told if wanted <= words]
    if not held and len(wanted) > 1:
        held = [one for one, words in told if len(wanted & words) * 3 >= len(wanted) * 2]
    if not held and (named := wanted - _GENERIC) and named != wanted:
        held = [one for one, words in told if named <= words]
    if not held:
        held = _by_head(plain, told)
    yield from (forgotten(one) for one in held[:_MOST_ENDED])


def _by_head(plain: str, told: list[tuple[Extracted, frozenset[str]]]) -> list[Extracted]:
    """The one thing that the last noun names ("the Tuscany house": the house)."""
    head = terms(plain.rsplit(maxsplit=1)[-1]) - _TOO_COMMON | (terms("house") & terms(plain.rsplit(maxsplit=1)[-1]))
    held = [one for one, words in told if head and head <= words and _HELD.match(one.predicate or "")]
    return held if len(held) == 1 else []


def _told(statement: Extracted) -> frozenset[str]:
    asked = (
        "" if (statement.predicate or "").startswith("told_") else statement.predicate or ""
    )  # which is what was said
    named = f"{statement.content} {asked} {' '.join(statement.tags)}"
    return terms(named.replace("_", " "))
