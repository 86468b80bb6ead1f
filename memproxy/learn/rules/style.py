"""Rules for standing wishes about answers ("please always answer in German").

A wish is only kept when it is about form: language, length, format, units, tone. What else somebody wants "always" done
is what planted instructions look like, too.
"""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import procedures
from memproxy.learn.rules.model import SURE, Clause, Groups, Rule, any_rule, i_rule
from memproxy.learn.rules.values import MASK, slug, third_person
from memproxy.learn.rules.words import LANGUAGES

_STANDING = (
    r"(?:(?:please |and |also |so )*(?:from now on|in (?:the )?future|going forward|by default|for "
    r"all (?:future )?(?:answers|replies|conversations)|whenever you (?:answer|reply)|always|every "
    r"time),?\s+(?:please |always )*)"
)
_VERBS = (
    r"(?:answer|reply|respond|write|speak|talk|explain|format|give (?:me )?(?:your )?(?:answers|"
    r"replies|responses|metric|imperial|short|long|brief|examples|code|units|temperatures|distances"
    r"|sources)|give me|keep (?:your |the |all )?(?:answers|replies|responses|explanations|it|"
    r"things)|use|show|address me|avoid|include|add|end|start|be|put)"
)
_FORM = re.compile(
    r"\b(?:short|shorter|brief|briefly|concise|concisely|terse|long|detailed|in detail|formal|formally|informal|"
    r"informally|casual|casually|polite|"
    r"bullet(?:ed)?(?: |-)?(?:points?|lists?)?|emojis?|metric|imperial|celsius|fahrenheit|kilomet\w+|miles|24-hour|"
    r"24h|12-hour|markdown|plain text|tables?|headings?|"
    r"simple (?:words|english|language|terms)|plain (?:english|language)|step[- ]by[- ]step|examples?|jargon|"
    r"met(?:re|er)s|feet|inches|centimet\w+|grams|kilos|pounds|degrees|"
    r"british|american|sentences?|words|paragraphs?|lines|"
    r"type hints|comments|code|typescript|python|rust|tabs|spaces|iso (?:dates?|8601)|euros|dollars|direct|blunt|"
    r"honest|apolog\w+|grovel\w*|flattery|compliments?|long version|short version|details|tl;?dr"
    r"|one[- ]liners?|pleasantries|first name|sources|citations|oxford comma|"
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


def style_preference(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I prefer short answers”."""
    said = re.sub(r" (?:now|again|these days|please)$", "", groups["x"].strip().rstrip(".!"))
    if _FORM.search(said) and not _HARMFUL.search(said):
        yield _wish(
            f"User prefers {third_person(said)}.",
            f"answer_style_{_aspect(said)}",
            third_person(said),
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


def stops(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Stop apologising all the time”."""
    said = groups["x"].strip().rstrip(".!")
    if _FORM.search(said) and not _HARMFUL.search(said) and len(said.split()) <= 10:
        yield _wish(
            f"User does not want the assistant to keep {third_person(said)}.",
            f"answer_style_{_aspect(said)}",
            f"no {third_person(said)}",
        )


def formed(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Bullet points in future please”: a form named alone."""
    said = groups["x"].strip(" ,")
    if _FORM.search(said) and not _HARMFUL.search(said) and len(said.split()) <= 8 and MASK not in said:
        yield _wish(
            f"User wants {third_person(said[0].lower() + said[1:])} in answers.",
            f"answer_style_{_aspect(said)}",
            third_person(said),
        )


_ONWARD = (
    r"(?:from now on|in (?:the )?future|going forward|by default|always|every time|from here on|for "
    r"everything|as a rule|at all times|from today)"
)

SENTENCE_RULES: tuple[Rule, ...] = (
    any_rule(
        r"(?:and |so |please |can you |could you |ok )*(?:skip|drop|leave out|leave off|omit|spare me|cut|no need "
        r"for) (?:the |all "
        r"the |your |any )?(?P<x>[\w' -]{3,40}?) (?:when|whenever|in|from) (?:you (?:answer|reply|write|explain)|"
        r"your (?:answers|"
        r"replies|explanations)|answers|replies)\b",
        stops,
    ),
    any_rule(
        rf"(?:.{{0,60}}?\b(?:so|therefore|that is why) )(?:please |kindly )+(?P<x>{_VERBS}\b.+)",
        wish,
    ),
    any_rule(
        r"(?:and |so |please |can you |ok )*(?:stop|quit|enough with the|less) (?P<x>(?:[a-z]+ing"
        r"|apolog\w+|grovel\w*|flattery|compliments?|long version|short version|details|tl;?dr|one[- "
        r"]liners?|emojis?|jargon)\b[^.,;!?]*)",
        stops,
    ),
    any_rule(
        rf"(?:and |so |please |ok )*(?P<x>(?!please\b|I\b|my\b|we\b|no\b|do not\b|never\b|{_VERBS}\b)[\w' "
        rf"-]{{3,50}}?),? (?:{_ONWARD})(?:,? please)?(?=[.,;!]|$)",
        formed,
    ),
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
        r"(?:please )?(?P<x>keep (?:(?:your|all|the|all your) )?(?:answers|replies|responses|explanations) .+)",
        wish,
    ),
    *procedures.RULES,
)
"""Rules for whole sentences, whose commas belong to what is asked for and to the steps."""
