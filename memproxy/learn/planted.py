"""How injections are worded: orders to a model to drop its rules, to be another, to answer in a given way.

Chosen on published collections of injections and jailbreaks, and on ordinary sentences that use the same words ("ignore
the previous email, the meeting is at 5"). A pattern asks for an order and for what only a model has.
"""

import re

_ORDER = (
    r"(?:^|[.!?:;,\"'(\[>*\n-]\s*"
    r"|\b(?:and|then|now|please|must|should|will|shall|just|you|so|want you to)\s+)"
)
_RULES = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directives?|programming|restrictions?|constraints?|safeguards?"
    r"|safety|polic(?:y|ies)|filters?)"
)
_MODEL = r"(?:assistant|ai|a\.i\.|model|llm|chatbot|chat ?gpt|gpt|bot)"
_EARLIER = r"(?:previous|prior|above|preceding|following|earlier|former|all|any|your|the|these|those)"
_DROP = r"(?:ignore|disregard|forget|override|bypass|discard|do not follow|don't follow)"
_WRITE = r"(?:print|say(?! the word)|output|respond|reply|answer|return|write|repeat)"

_DROPPED_RULES = (
    rf"{_ORDER}{_DROP}\b.{{0,40}}\b{_EARLIER}\b.{{0,30}}\b{_RULES}\b",
    rf"{_ORDER}ignore (?:all|any|every|everything|the rest)\b.{{0,60}}\b(?:text|data|document|input|context|above)\b",
    r"\bforget (?:everything|all) (?:that )?you(?:'ve| have| were)? (?:learned|learnt|been told|told|know)\b(?! about)",
    r"\bnormal (?:restrictions|rules|limits) (?:don't|do not|no longer) apply\b",
    r"\b(?:bypass|ignores?|violat\w+|adhere to|against)\b.{0,30}\b(?:open ?a[il]|content) (?:content )?polic(?:y|ies)",
)
_ANOTHER_IDENTITY = (
    r"\byou are now (?:going to |free\b|unrestricted|jailbroken|in \w+ mode|dan\b)",
    rf"\byou are now (?:an? |the )?(?:[\w-]+ ){{0,3}}(?:{_MODEL}|character|persona)\b",
    r"\byou(?:'re| are) (?:going|about) to (?:act|pretend|play|immerse|simulate|role)",
    r"\byou will (?:now )?(?:take on|assume|play) the (?:role|persona|identity) of\b",
    r"\b(?:from (?:now|here) on|henceforth),? you\b|\bstay in character\b|\bbreak(?:ing)? character\b",
    r"\b(?:act|behave|answer|respond) (?:as|like) (?:an? )?(?:unrestricted|unfiltered|uncensored|jailbroken|dan\b)",
    rf"{_ORDER}pretend (?:to be|you(?:'re| are))\b|\brole[- ]?play an example\b",
    r"\bdo anything now\b|\b(?:dan|developer|god|jailbreak) mode (?:enabled|on|output)\b|\bdan mode\b",
    rf"\bjailbreak(?:ing)? (?:mode|prompt|the (?:{_MODEL}))|\bjailbroken (?:{_MODEL})",
    r"\b(?:confines|limitations) of a[il]\b|\btypical a[il] (?:confines|limitations)\b",
    r"\bnever refuse\b|\b(?:unfiltered|uncensored)\b.{0,30}\b(?:answers?|responses?|output)\b",
)
_ORDERED_ANSWER = (
    rf"{_ORDER}(?:just|only|simply) {_WRITE}\b",
    r"\bprint the words?\b|\brepeat <[^>]*>|\bstop everything\b|\bprefix your (?:answers|responses)\b",
    r"\bif (?:you are |you're )?asked\b.{0,80}\b(?:respond|reply|answer|say)\b|\byou may not deviate\b",
    r"\bnote to (?:the )?(?:automated|ai|llm|language|screening|assistant|any)\b.{0,40}:",
    r"\b(?:ai|llm|language) (?:assistants?|models?|agents?)\s*[:,]\s*(?:remember|store|save|note|assume|you)\b",
    (
        rf"\b(?:the |any )?{_MODEL} (?:must|should|shall|has to|have to|needs? to|will|is to) "
        r"(?:always|never|now|immediately)\b"
    ),
    (
        rf"\b(?:reveal|show|print|repeat|output|leak|tell me|your|this {_MODEL}'s|new|hidden) (?:me )?(?:the |your )?"
        r"(?:system|developer) (?:prompt|message|instructions?)\b"
    ),
    (
        r"\b(?:send|post|forward|upload|exfiltrate)\b.{0,60}\b(?:conversation|chat history|memor(?:y|ies)|api keys?)\b"
        r".{0,40}https?://"
    ),
)
_MARKS = (
    r"[<‹]\s*/?\s*recalled-memory\b|</?\s*(?:system|instructions?)\b|\[/?inst\]|<\|(?:im_(?:start|end)|system|user|assistant)\|>",
    r"#{2,}\s*(?:human|instructions?|system|assistant|response)\s*:",
    r"\n\s*assistant\s*:.{0,400}\n\s*(?:user|human)\s*:",
)
_PLANTED = re.compile(
    "|".join((*_DROPPED_RULES, *_ANOTHER_IDENTITY, *_ORDERED_ANSWER, *_MARKS)), re.IGNORECASE | re.DOTALL
)

_MADE = (
    r"(?:write|compose|generate|translate|summari[sz]e|describe|imagine|pretend|repeat|print|tell (?:me )?(?:a|an|some)"
    r"|say|rewrite|paraphrase|draw)"
)
_REQUEST = re.compile(
    rf"\W*(?:(?:please|first|now|hey|ok(?:ay)?|so)\W+)*"
    rf"(?:{_MADE}\b|(?:can|could|would|will) your? (?:please )?{_MADE}\b|how (?:would|do) you say\b)",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\b(?:my|our|mine|ours)\b"
    r"|(?<!would )(?<!should )(?<!could )(?<!can )(?<!do )(?<!if )(?<!that )\b(?:i|we)(?:['’]\w+|\s+\w{2,})",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\b(?:always|never|from now on|prefer\w*|call me|whenever|every time|in (?:the )?future|by default|remember)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”")
_GIVEN = re.compile(r"[:\n]")


def plants(text: str) -> bool:
    """Whether the text gives instructions to a model, as injections do."""
    return _PLANTED.search(text) is not None


def is_request(quote: str) -> bool:
    """Whether it asks for a text to be made and says nothing else: what is given to work on (quoted, after a colon)
    aside.
    """
    asked = _GIVEN.split(unquoted(quote), maxsplit=1)[0]
    return _REQUEST.match(asked) is not None and not _OWN.search(asked) and not _LASTING.search(quote)


def unquoted(text: str) -> str:
    """The text without what stands in double quotation marks."""
    return _QUOTED.sub("", text)
