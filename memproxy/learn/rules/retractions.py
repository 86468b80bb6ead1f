"""Retractions: what the user takes back ("forget what I told you about X", "I no longer have a dog")."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.denials import States, not_so_of_others
from memproxy.learn.rules.ledger import Ledger, forgotten, terms
from memproxy.learn.rules.model import SURE, Clause
from memproxy.learn.rules.sound import sound
from memproxy.learn.rules.topics import from_gerund, plain_topic, topic_of, what_is_done
from memproxy.learn.rules.values import third_person, trimmed
from memproxy.learn.rules.words import PEOPLE, PETS

_ASKED = (
    r"(?:(?:please|can you|could you|you can|you should|kindly|just|so|also|I want you to|I would like you to|and) )*"
)
_FORGET_ABOUT = re.compile(
    rf"{_ASKED}(?:forget|delete|remove|erase|disregard|ignore|scrap|discard|drop|clear)(?: about)? (?:everything|"
    rf"anything|all|what|whatever|that|the things?|the stuff|the part|the bit|all (?:that|the things?)|my memory|"
    rf"your memory|all (?:the )?information|the information|any information|info)"
    r"(?: that)? ?(?:I|we|you|you have|I have)? ?(?:have )?(?:said|told you|mentioned|wrote|shared|know|remember|"
    r"stored|saved|have)?(?: to you| earlier| before| you)?(?: about| on| regarding| of| concerning) (?P<x>.+)",
    re.IGNORECASE,
)
_FORGET_THAT = re.compile(
    rf"{_ASKED}(?:forget|delete|do not (?:remember|keep|store|save|note|retain)|remove|erase|disregard|"
    rf"stop remembering|ignore)(?: the (?:fact|part|"
    rf"note|memory))?(?: that| where I said(?: that)?| what I said,?)? (?P<x>(?:I|my|we|our) .+)",
    re.IGNORECASE,
)
_FORGET_MINE = re.compile(
    rf"{_ASKED}(?:now )?(?:forget|delete|remove|erase|discard|drop|scrap|clear|wipe|do not (?:keep|store|save"
    rf"|remember|hold on to|retain|use))(?: about)? (?P<x>(?:my|our|the) .+)",
    re.IGNORECASE,
)
_NEVER_MIND = re.compile(
    r"(?:never mind|forget|scrap|skip|cancel) (?:about )?(?P<x>(?:my|our|the) .+)",
    re.IGNORECASE,
)
_MINE = re.compile(r"(?:my|our) ", re.IGNORECASE)
_LAST = re.compile(
    r"(?:(?:that|this|it) is (?:not|no longer) (?:true|right|correct|accurate|the case|valid|so|up to date)(?: "
    r"anymore)?|(?:that|this) is (?:wrong|outdated|incorrect|out of date|not right)|"
    r"(?:scratch|strike|forget) all (?:of )?(?:that|this)|scratch that|strike that|(?:please )?(?:forget|delete|"
    r"ignore|disregard|scrap|remove) (?:that|what I (?:just |"
    r"said |told you )?(?:just )?(?:said|told you)|this)(?: again| please)?|I take that back|I was (?:wrong|joking|"
    r"kidding|lying) about that|(?:that|it|this) was (?:only |just |obviously )?an? (?:joke|lie|fib)|"
    r"(?:never mind|forget) (?:that|what I said|what I just said))(?:[.!,]|$)",
    re.IGNORECASE,
)
_GIVEN_AWAY = re.compile(
    r"(?:I|we) (?:had to |have to |have )?(?:give|gave|given|put) (?P<x>(?:(?:my|our|the) )?[\w' "
    r"-]{2,30}?) (?:away|up|down|back|to sleep)\b"
    r"|(?:I|we) (?:have )?(?:gave|given|passed|handed)(?: over)? (?P<w>(?:my|our|the) [\w' -]{2,30}?) (?:on |"
    r"down )?to (?:my|"
    r"our|an?|the|(?-i:[A-Z])\w+)\b"
    r"|(?:the doctors?|my (?:doctor|gp)|they|she|he) took me off (?P<y>.+)|(?:my|our) (?P<z>[\w' "
    r"-]{2,30}?) (?:broke|fell through|was stolen|got stolen|was cancelled|ended|closed down|is "
    r"history|ran away)(?=$|[.,!;]| last| in\b)",
    re.IGNORECASE,
)
_NO_LONGER = re.compile(r"(?P<who>I|we) (?:am |are )?no longer (?P<x>.+)", re.IGNORECASE)
_NOT_ANYMORE = re.compile(
    r"(?P<who>I|we) (?P<aux>do not|am not|are not|cannot)(?P<x> .+?) anymore\b(?P<rest>.*)",
    re.IGNORECASE,
)
_STOPPED = re.compile(
    r"(?P<who>I|we) (?:have )?(?:stopped|quit|gave up|given up|dropped|canceled|cancelled) (?P<x>.+)",
    re.IGNORECASE,
)
_ENDED = re.compile(
    r"(?:I|we) (?:have |had to |am |are )?(?:(?:stepped|stepping) down (?:from|as)|resigned (?:from"
    r"|as)|withdrew from|(?:dropped|backed|pulled) out of|retired from|ripped out|tore out|binned"
    r"|uninstalled|unsubscribed from"
    r"|moved on from|stopped using|threw out|"
    r"came off|got off|off|give away|put down|traded in|returned|backed out of|pulled out of|left"
    r"|quit|sold|gave away|given away|got rid of|lost|returned|donated|cancelled|canceled|called "
    r"off|dropped|scrapped|abandoned|changed my mind about|am not doing) (?P<x>(?:(?:my|our|the|that) |"
    r"(?-i:[A-Z])).+)",
    re.IGNORECASE,
)
_IS_OFF = re.compile(
    r"(?P<x>(?:my|our|the|that|this) .{2,60}?|[A-Z]\w+) (?:is|are|was|were|has been|got|have been)(?: "
    r"now)? (?:off|cancelled|"
    r"canceled|called off|not happening(?: anymore)?|no longer happening|gone|sold|over)(?=\s*$|[.,!;]| now\b)",
    re.IGNORECASE,
)
_DIED = re.compile(
    r"(?:(?:my|our) (?P<pet>\w+),? )?(?P<x>[A-Z]\w+)? ?(?:died|passed away|has died|has passed away|was put (?:down|"
    r"to sleep))\b",
    re.IGNORECASE,
)
_LEFT = re.compile(
    r"(?:(?:I|we) (?:have )?(?:left|quit|resigned from|was laid off from|got laid off from|got fired from|was fired "
    r"from|no longer work (?:at|for)|handed in (?:my|the) (?:badge|notice|resignation|keys|laptop) (?:at|to))|"
    r"(?:my |our )?last (?:day|shift) (?:at|with)(?=.* was\b)) (?:my job(?: at| as an?)? ?|my position at )?(?P<x>.*)",
    re.IGNORECASE,
)
_AT_A_FIRM = re.compile(r"User is (?:an? |in )[\w -]+ (?:at|with) (?-i:[A-Z])")
_NOT_HAVING = re.compile(
    r"(?P<who>I|we) (?:do|did) not have (?:an? |any )?(?P<x>[\w' -]+?)s?(?=\s*$|[.,!;])",
    re.IGNORECASE,
)
_NOT_SO = re.compile(r"(?P<who>I|we) (?P<aux>am not|do not|are not) (?P<x>.+)", re.IGNORECASE)
_NOT_PERSONAL = re.compile(
    r"\b(?:file|branch|code|line|column|row|table|comment|function|variable|folder|directory|cache|instance|"
    r"container|account|email|draft|paragraph|sentence|section|slide|duplicate\w*|spaces?|commit|last line|order|"
    r"cart|app|browser|history|cookies|photo|image|background|message|answers?|request|question"
    r"|prompt|instructions?|reply|response)\b",
    re.IGNORECASE,
)


def retractions(clause: Clause, ledger: Ledger, states: States) -> Iterator[Extracted]:
    """What a clause takes back; each candidate names it."""
    for find in (
        _last,
        _about,
        _that,
        _mine,
        _no_longer,
        _ended,
        _died,
        _left,
        _not_so,
        not_so_of_others,
    ):
        found = list(find(clause, ledger, states))
        if found:
            yield from found
            return


def is_retraction(clause: Clause) -> bool:
    """Whether the clause asks to forget, so that it is read as nothing else."""
    return any(pattern.match(clause.text) for pattern in (_FORGET_ABOUT, _FORGET_THAT, _LAST))


def _last(clause: Clause, ledger: Ledger, _states: States) -> Iterable[Extracted]:
    """“That is not true anymore”: what this conversation stated last."""
    if _LAST.match(clause.text) is None:
        return
    said = [one for one in ledger.newest() if one.turn >= 0]
    if not said and ledger.heard:
        held = [one.statement for one in ledger.newest() if _repeats(one.statement, ledger.heard[-1])]
        yield from (forgotten(one) for one in held[:1])
        return
    if said:
        newest = said[0].turn
        evidence = said[0].statement.evidence
        yield from (
            forgotten(one.statement) for one in said if one.turn == newest and one.statement.evidence == evidence
        )


def _repeats(statement: Extracted, heard: frozenset[str]) -> bool:
    """Whether a sentence says over again what is known."""
    told = terms(statement.content)
    return len(told) > 1 and len(told & heard) * 3 >= len(told) * 2


def _about(clause: Clause, ledger: Ledger, _states: States) -> Iterable[Extracted]:
    """“Forget everything I told you about X”."""
    match = _FORGET_ABOUT.match(clause.text)
    if match is not None:
        yield from _topic(match["x"], ledger)


def _topic(said: str, ledger: Ledger) -> Iterable[Extracted]:
    """All that is known about a topic; what is not known in this window is named as said."""
    said = re.split(
        r",\s+(?=(?:I|it|that|we|should|please|thanks|was|just|don't|do not|could|can|what|how)\b)| "
        r"(?:thing|stuff) (?:I|we) ",
        said,
    )[0]
    said = re.sub(r"\s+(?:from|in) (?:your |the )?(?:memory|memories|records|notes).*$", "", said)
    topic = trimmed(re.sub(r"^(?:my|our|the|me|that) ", "", plain_topic(said.strip())), "whole")
    if topic is None:
        return
    topic = re.sub(
        r"(?:,? (?:please|ok|okay|thanks|anymore|again|completely))+$",
        "",
        topic,
        flags=re.IGNORECASE,
    )
    found = ledger.all_about(topic) or ledger.all_about(topic.partition(",")[0])
    if not found and (named := what_is_done(topic)) is not None:
        found = [one for one in ledger.all_about(named) if one.subject == "user"]  # of whom it is said is who says it
    if found:
        yield from (forgotten(one) for one in found)
    else:
        yield Extracted(content=third_person(topic), intent=Intent.FORGET, confidence=SURE)


def _that(clause: Clause, ledger: Ledger, states: States) -> Iterable[Extracted]:
    """“Forget that I live in Berlin”."""
    match = _FORGET_THAT.match(clause.text)
    if match is None:
        return
    told = re.sub(r"(?:,? (?:anywhere|please|on file|in (?:your )?(?:memory|notes|records)))+[.!]?$", "", match["x"])
    stated = states(msgspec.structs.replace(clause, text=told))
    if stated:
        yield from (forgotten(one) for one in stated)
    elif _NOT_PERSONAL.search(match["x"]) is None and (_MINE.match(match["x"]) or ledger.all_about(match["x"])):
        yield from _topic(match["x"], ledger)


_FORGET_WHAT = re.compile(
    rf"{_ASKED}(?:forget|delete|do not (?:keep|store|save|remember|hold on to|retain|use|note)|remove|erase)"
    r"(?: about)? "
    r"(?P<x>(?:how|where|who|whom|what|when) (?:much |old )?(?:I|we) .+)",
    re.IGNORECASE,
)


def _mine(clause: Clause, ledger: Ledger, _states: States) -> Iterable[Extracted]:
    """“Please delete my address”: only what memory could hold."""
    asked_what = _FORGET_WHAT.match(clause.text)
    if asked_what is not None and (named := plain_topic(asked_what["x"])) != asked_what["x"]:
        yield from (forgotten(one) for one in ledger.all_about(named))
        return
    match = _FORGET_MINE.match(clause.text) or _NEVER_MIND.match(clause.text)
    if match is None or len(match["x"].split()) > 8:
        return
    is_known = bool(ledger.all_about(re.sub(r"^(?:my|our|the) ", "", match["x"], flags=re.IGNORECASE)))
    if _NOT_PERSONAL.search(match["x"]) and not is_known:
        return
    asked = (
        re.match(
            r"\W*(?:please |can you |could you )*(?:forget|delete|remove|erase|do not (?:keep|store|save"
            r"|remember|retain))",
            clause.text,
            re.IGNORECASE,
        )
        is not None
    )
    if is_known or (
        asked
        and match["x"].lower().startswith(("my", "our"))
        and re.search(r"\b(?:from|in) (?:your )?memory\b", match["x"]) is None
    ):
        yield from _topic(
            re.sub(
                r"\s+(?:from (?:your )?(?:memory|memories|records)|anywhere|around|on file|anymore).*$", "", match["x"]
            ),
            ledger,
        )


def _no_longer(clause: Clause, ledger: Ledger, states: States) -> Iterable[Extracted]:
    """“I no longer live in Berlin”: the statement without its “no longer” is taken back."""
    text = _affirmed(clause.text)
    if text is None or re.match(r"(?:I|we) (?:\w+ )?(?:\d+|\w+) (?:years?|months?|weeks?|days?) ago\b", text):
        return
    stated = [one for one in states(msgspec.structs.replace(clause, text=text)) if one.predicate and sound(one)]
    if any(one.predicate in ("likes", "dislikes", "quit", "avoids") for one in stated):
        return  # a change of mind, which is a statement
    if _NOUN_GIVEN_UP.match(text) is not None:
        stated = []
    known = ledger.all_about(trimmed(re.sub(r"^(?:on|with) ", "", topic_of(text)), "long") or topic_of(text))
    if stated:
        yield from (forgotten(_as_known(one, ledger)) for one in stated)
    elif known:
        yield from (forgotten(one) for one in known)
    elif have := re.match(
        r"(?:I|we) (?:have|own) (?:an? |any |my |the )?(?P<x>[\w' -]+?)[.!]?$",
        text,
        re.IGNORECASE,
    ):
        yield _lost(have["x"])


_NOUN_GIVEN_UP = re.compile(r"(?:I|we) (?:my|our|the|an?|that|this|his|her|their)\b", re.IGNORECASE)
"""After "I quit" or "I cancelled" stands a thing, not what was done."""


def _lost(what: str) -> Extracted:
    """A thing, person or animal that the user has no more."""
    word = what.lower().strip()
    kind = PETS.get(word) or PETS.get(word.removesuffix("s")) or (word if word in PEOPLE else None)
    return Extracted(
        content=f"User has {'an' if word[:1] in 'aeiou' else 'a'} {word}.",
        intent=Intent.FORGET,
        subject="user",
        predicate=f"has_{kind}" if kind else "owns",
        object=None if kind else word,
        confidence=SURE,
    )


def _as_known(stated: Extracted, ledger: Ledger) -> Extracted:
    """The known statement that is meant ("a dog": the one named Biscuit), else the one that was said."""
    about = [one.statement for one in ledger.newest() if one.statement.predicate == stated.predicate]
    if stated.predicate and stated.predicate.startswith("has_") and len(about) == 1:
        return about[0]
    if stated.predicate == "owns" and stated.object and not any(one.object == stated.object for one in about):
        wanted = terms(stated.object)
        held = [one.statement for one in ledger.newest() if one.is_owned and wanted <= one.told]
        if len(held) == 1:
            return held[0]  # "the car" of "I have a VW Polo"
    return (
        stated
        if not (stated.predicate or "").startswith("has_") or stated.entities
        else msgspec.structs.replace(stated, object=None)
    )


def _affirmed(text: str) -> str | None:
    if (match := _NO_LONGER.match(text)) is not None:
        is_being = re.match(r"(?:I|we) (?:am|are) no longer", text, re.IGNORECASE)
        be = "am" if match["who"].lower() == "i" else "are"
        return f"{match['who']} {be} {match['x']}" if is_being else f"{match['who']} {match['x']}"
    if (match := _NOT_ANYMORE.match(text)) is not None:
        aux = {"am not": " am", "are not": " are"}.get(match["aux"].lower(), "")
        return f"{match['who']}{aux}{match['x']}"
    if (match := _STOPPED.match(text)) is not None:
        return f"{match['who']} {from_gerund(match['x'])}"
    return None


def _ended(clause: Clause, ledger: Ledger, _states: States) -> Iterable[Extracted]:
    """“I sold my car”, “the trip to Japan is cancelled”: what is known of it ends."""
    match = _ENDED.match(clause.text) or _IS_OFF.match(clause.text)
    said = match["x"] if match else None
    if said is None and (away := _GIVEN_AWAY.match(clause.text)) is not None:
        said = away["x"] or away["w"] or away["y"] or away["z"]
    if said is None:
        return
    plain = re.sub(r"^(?:my|our|the|that|this) ", "", re.sub(r" (?:thing|role|job|post|position|business)$", "", said))
    topic = trimmed(re.split(r",| (?:in|on|last|this|because|after|when|for) ", plain)[0], "whole")
    if topic is not None:
        yield from (forgotten(one) for one in ledger.all_about(topic))


def _died(clause: Clause, ledger: Ledger, _states: States) -> Iterable[Extracted]:
    """A pet that is no more."""
    match = _DIED.match(clause.text)
    if match is None or not (match["x"] or match["pet"]):
        return
    wanted = terms(match["x"] or match["pet"] or "")
    for one in ledger.newest():
        if (one.statement.predicate or "").removeprefix("has_") in PETS.values() and wanted <= terms(
            one.statement.content
        ):
            yield forgotten(one.statement)


def _left(clause: Clause, ledger: Ledger, _states: States) -> Iterable[Extracted]:
    """A job that ended."""
    match = _LEFT.match(clause.text)
    if match is None:
        return
    where = terms(re.split(r",| (?:in|on|last|this|because|after|for|at the|was) ", match["x"])[0])
    for one in ledger.newest():
        if (
            (one.statement.predicate == "employer" or (where and _AT_A_FIRM.match(one.statement.content)))
            and one.statement.subject == "user"
            and where <= terms(one.statement.content)
        ):
            yield forgotten(one.statement)


def _not_so(clause: Clause, ledger: Ledger, states: States) -> Iterable[Extracted]:
    """A plain denial ("I do not have a dog", "I am not vegan") of something that is known."""
    having, match = _NOT_HAVING.match(clause.text), _NOT_SO.match(clause.text)
    if having is not None:
        yield from (
            forgotten(one)
            for one in ledger.all_about(having["x"])
            if (one.predicate or "").startswith(("has_", "owns", "number_of"))
        )
        return
    if match is None:
        return
    be = " am" if "am" in match["aux"].lower() else " are" if "are" in match["aux"].lower() else ""
    said = re.sub(r"\s+(?:at all|after all|in the least|in fact)\b", "", match["x"])
    for one in states(msgspec.structs.replace(clause, text=f"{match['who']}{be} {said}")):
        held = [
            known.statement
            for known in ledger.newest()
            if known.statement.predicate == one.predicate
            and (known.statement.object or "").casefold() == (one.object or "").casefold()
        ]
        if held and not (one.predicate or "").startswith(("likes", "dislikes")):
            yield forgotten(held[0])
