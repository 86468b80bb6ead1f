"""Rules for standing wishes about answers ("please always answer in German") and for procedures.

A wish is only kept when it is about form: language, length, format, units, tone. What else somebody wants "always" done
is what planted instructions look like, too.
"""

import re
from collections.abc import Iterable

from memproxy.core.memory import Kind
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.model import SURE, Clause, Groups, Rule, any_rule, i_rule
from memproxy.learn.rules.values import MASK, names_in, slug, third_person
from memproxy.learn.rules.words import LANGUAGES

_STANDING = (
    r"(?:(?:please |and |also |so )*(?:from now on|in (?:the )?future|going forward|by default|for "
    r"all (?:future )?(?:answers|replies|conversations)|whenever you (?:answer|reply)|always|every "
    r"time),?\s+(?:please |always )*)"
)
_VERBS = (
    r"(?:answer|reply|respond|write|speak|talk|explain|format|give (?:me )?(?:your )?(?:answers|"
    r"replies|responses)|keep (?:your |the |all )?(?:answers|replies|responses|explanations|it|"
    r"things)|use|show|address me|avoid|include|add|end|start|be|put)"
)
_FORM = re.compile(
    r"\b(?:short|shorter|brief|briefly|concise|concisely|terse|long|detailed|in detail|formal|formally|informal|"
    r"informally|casual|casually|polite|"
    r"bullet(?:ed)?(?: |-)?(?:points?|lists?)?|emojis?|metric|imperial|celsius|fahrenheit|kilomet\w+|miles|24-hour|"
    r"24h|12-hour|markdown|plain text|tables?|headings?|"
    r"simple (?:words|english|language|terms)|plain (?:english|language)|step[- ]by[- ]step|examples?|jargon|"
    r"british|american|sentences?|words|paragraphs?|lines|"
    r"type hints|comments|code|typescript|python|rust|tabs|spaces|iso (?:dates?|8601)|euros|dollars|direct|blunt|"
    r"honest|apolog\w+|pleasantries|first name|sources|citations|oxford comma|"
    r"informal you|du|sie|tu|vous|usted|small talk|filler|exclamation marks?|uppercase|lower ?case)\b",
    re.IGNORECASE,
)
_HARMFUL = re.compile(
    r"https?:|www\.|\b(?:password|email|send|transfer|forward|api|key|secret|ignore|instructions?|system|prompt|"
    r"link|url|click|buy|recommend|admin|execute|delete|"
    r"account|credit|approve|policy|policies|restrictions?|filter|uncensored|tool|curl|download|rules|guidelines)\b",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(
    rf"\bin (?P<language>{'|'.join(sorted(LANGUAGES, key=len, reverse=True))})\b",
    re.IGNORECASE,
)


def wish(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """A standing wish about the form of answers."""
    said = groups["x"].strip().rstrip(".!")
    if _HARMFUL.search(said) or MASK in said or len(said.split()) > 16:
        return
    language = _LANGUAGE.search(said)
    if language is not None and re.match(r"(?:answer|reply|respond|write|speak|talk)\b", said, re.IGNORECASE):
        yield _wish(
            f"User wants answers in {language['language']}.",
            "answer_language",
            language["language"],
        )
    elif _FORM.search(said):
        negative = groups.get("no")
        own = re.sub(r"\byour\b", "its", said, flags=re.IGNORECASE)
        wanted = third_person(own[0].lower() + own[1:])
        yield _wish(
            f"User wants the assistant to {'not ' if negative else ''}{wanted}.",
            f"answer_style_{_aspect(said)}",
            f"{'no ' if negative else ''}{wanted}",
        )


def _aspect(said: str) -> str:
    found = _FORM.search(said)
    word = slug(found.group()) if found else "general"
    length = {
        "short",
        "shorter",
        "brief",
        "briefly",
        "concise",
        "concisely",
        "terse",
        "long",
        "detailed",
        "in_detail",
        "sentence",
        "paragraph",
        "word",
    }
    units = {"metric", "imperial", "celsius", "fahrenheit", "mile"}
    tone = {
        "formal",
        "formally",
        "informal",
        "informally",
        "casual",
        "casually",
        "polite",
        "direct",
        "blunt",
    }
    for name, members in (("length", length), ("units", units), ("tone", tone)):
        if word in members:
            return name
    return word


def _wish(content: str, predicate: str, value: str) -> Extracted:
    return Extracted(
        content=content,
        subject="user",
        predicate=predicate,
        object=value,
        category="user-preferences/style",
        tags=("style", "instructions"),
        confidence=SURE,
        importance=0.9,
    )


def no_more(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“No emojis please, ever”."""
    what = groups["what"].lower()
    yield _wish(f"User wants no {what}.", f"answer_style_{_aspect(what)}", f"no {what}")


_CONVENTION = re.compile(
    r"\b(?P<who>I|we) always (?P<x>(?:write|use|start|end|put|name|run|tag|squash|rebase|review|deploy|format|"
    r"indent|wrap|test|commit|branch|merge|label|keep|store|back up|prefix|document|pin|lint)\b.+)",
    re.IGNORECASE,
)


def convention(clause: Clause) -> list[Extracted]:
    """“We always write commit messages in the imperative”: how something is done, said without steps."""
    match = _CONVENTION.match(
        re.sub(
            r"^\W*(?:(?:and|also|so|but|btw|note that),? )*",
            "",
            clause.evidence,
            flags=re.IGNORECASE,
        )
    )
    if match is None or "?" in match["x"] or MASK in clause.text:
        return []
    said = match["x"].strip().rstrip(".!")
    return [
        Extracted(
            content=f"User always {third_person(third_verb(said))}.",
            kind=Kind.PROCEDURAL,
            subject="user",
            predicate=f"convention_{slug(said)}"[:60],
            object=third_person(said),
            category="procedures/conventions",
            tags=("procedure",),
            confidence=SURE,
            importance=0.6,
        )
    ]


def reaction(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“When I feel a migraine coming I take one sumatriptan, lie down in the dark and skip dinner”."""
    goal, steps = groups["goal"].strip(" ,"), groups["x"].strip().rstrip(".!")
    if MASK in steps or len(goal.split()) > 10 or len(re.findall(r",|\band\b|\bthen\b", steps)) < 2:
        return
    yield Extracted(
        content=f"{groups['when'].capitalize()} they {third_person(goal)}, the user does this: {third_person(steps)}.",
        kind=Kind.PROCEDURAL,
        subject="user",
        predicate=f"routine_{slug(goal)}"[:60],
        object=third_person(steps),
        category="procedures/steps",
        tags=("procedure",),
        confidence=SURE,
        importance=0.7,
    )


def style_preference(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I prefer short answers”."""
    said = groups["x"].strip().rstrip(".!")
    if _FORM.search(said) and not _HARMFUL.search(said):
        yield _wish(
            f"User prefers {third_person(said)}.",
            f"answer_style_{_aspect(said)}",
            third_person(said),
        )


def procedure(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """How something is done, complete and in order: at least two steps."""
    goal, steps = groups["goal"].strip(), groups["x"].strip().rstrip(".!")
    if MASK in steps or len(goal.split()) > 10 or not _is_ordered(steps) or len(steps) < 12:
        return
    yield steps_of(goal, steps)


def _is_ordered(steps: str) -> bool:
    return (
        re.search(
            r"\b(?:then|after that|afterwards|finally|and (?:then )?(?:run|push|tag|restart|deploy|wait|check|open|"
            r"merge|click|add|call|send|build))\b|→|->|\b2[.)]|,\s*\w+.*,\s*(?:and|then)\b",
            steps,
            re.IGNORECASE,
        )
        is not None
    )


def steps_of(goal: str, steps: str) -> Extracted:
    """The statement of a procedure."""
    plain = third_person(goal)
    return Extracted(
        content=f"To {plain}: {third_person(steps)}.",
        kind=Kind.PROCEDURAL,
        subject="user",
        predicate=f"how_to_{slug(re.sub(r'^(?:the|my|our) ', '', goal))}",
        object=third_person(steps),
        category="procedures/steps",
        tags=("procedure",),
        entities=tuple(names_in(goal)),
        confidence=SURE,
        importance=0.7,
    )


_STEP_VERB = (
    r"(?:first|run|do|open|click|push|pull|tag|build|merge|bump|start|stop|check|update|log in|ssh|"
    r"call|go to|create|execute|we|I|you (?:need|have) to|you|install|type|use|copy|turn|press|boil|"
    r"mix|soak|always|`)"
)

CLAUSE_RULES: tuple[Rule, ...] = (
    i_rule(
        rf"(?:want|would like|need|prefer|expect) (?:you to )?always (?P<x>{_VERBS}\b.+)",
        wish,
    ),
    i_rule(
        rf"(?:want|would like|prefer|expect) (?:it (?:when|if) you|you to) (?P<x>{_VERBS}\b.+)",
        wish,
    ),
    i_rule(
        r"(?:prefer|like|want|would like|love) (?:your )?(?P<x>(?:short|brief|concise|detailed|long|direct|formal|"
        r"informal|casual|bulleted|step-by-step|straightforward|blunt)[\w ,-]* (?:answers|replies|responses|"
        r"explanations|summaries)\b.*)",
        style_preference,
    ),
    i_rule(
        r"(?:prefer|like|want|would like) (?:your |my )?(?:answers|replies|responses|explanations|summaries) (?:to "
        r"be )?(?P<x>.+)",
        style_preference,
    ),
)

SENTENCE_RULES: tuple[Rule, ...] = (
    any_rule(rf"{_STANDING}(?P<x>{_VERBS}\b.+)", wish),
    any_rule(
        rf"(?:please |and )*(?P<x>{_VERBS}\b.+?),? (?:from now on|in (?:the )?future|going forward|by default|"
        rf"always|every time|from here on)\b",
        wish,
    ),
    any_rule(rf"(?:please |and )*(?P<no>never|do not ever) (?P<x>{_VERBS}\b.+)", wish),
    any_rule(
        r"(?:please |and )*(?P<no>do not) (?P<x>(?:use emojis?|use bullet points|use jargon|apologi[sz]e|use "
        r"exclamation marks)\b.*)",
        wish,
    ),
    any_rule(
        r"(?:and |but |so )*(?:please )?no (?:more )?(?P<what>emojis?|jargon|bullet points|markdown|exclamation "
        r"marks|headings|tables|small talk|filler|apologies|swearing|preamble|disclaimers)(?=.*\b(?:please|ever|"
        r"never|anymore|in your|at all|from now on|always)\b)(?P<x>)",
        no_more,
    ),
    any_rule(
        r"(?:please )?(?P<x>keep (?:your|all|the|all your) (?:answers|replies|responses|explanations) .+)",
        wish,
    ),
    any_rule(
        rf"(?:to|in order to|whenever (?:I|we)|when (?:I|we)|every time (?:I|we)) (?P<goal>[^,:]{{3,70}}?)(?:,|"
        rf":)\s*(?P<x>{_STEP_VERB}\b.+)",
        procedure,
    ),
    any_rule(
        r"(?:to|in order to) (?P<goal>[a-z]+ [^,:]{2,60}?) (?P<x>(?:we|I|you) (?:first|always|just|need to|have to|"
        r"run|do|push|tag|open|start)\b.+)",
        procedure,
    ),
    any_rule(
        r"(?P<when>when|whenever|before|after|every time) I (?P<goal>[^,:]{3,60}?),? I (?:always )?(?P<x>(?:take|"
        r"drink|do|lie|go|run|put|make|set|turn|check|open|start|write|use|first|eat|stretch|call|clean|wash|mix|"
        r"soak|water|feed|pack)\b.+)",
        reaction,
    ),
    any_rule(
        r"(?:(?:my|our|the) )(?P<goal>[\w -]{3,50}?) (?:process|procedure|workflow|routine|checklist|steps?|"
        r"pipeline)(?: for [\w -]+?)?(?: is| are|:| goes)(?: like this| as follows)?:?\s*(?P<x>.+)",
        procedure,
    ),
    any_rule(
        r"(?:the way|how) (?:I|we) (?P<goal>[\w -]{3,50}?) is(?: like this| as follows)?[:,]?\s*(?P<x>.+)",
        procedure,
    ),
    any_rule(
        r"before (?:every|each|any) (?P<goal>[\w -]{3,40}?),? (?:I|we) (?:always )?(?P<x>.+)",
        procedure,
    ),
)
"""Rules for whole sentences, whose commas belong to what is asked for and to the steps."""
