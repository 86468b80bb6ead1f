"""Clauses of a sentence, normalised so that one pattern fits the many ways of writing the same."""

import re
from collections.abc import Iterator
from datetime import datetime

from memproxy.learn.rules.cuts import ANOTHER, CUT, LEFT_OUT, THIRD, THIRD_TOO
from memproxy.learn.rules.elided import restored
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.normal import normalised
from memproxy.learn.rules.openings import opened
from memproxy.learn.rules.words import OCCUPATIONS, PEOPLE, WEAK_OCCUPATIONS

_NOW = re.compile(
    r"\b(?:now|instead|no longer|anymore|these days|nowadays|(?:my|our) new)\b|\bactually[.!]?$", re.IGNORECASE
)

_TRADES = "|".join(sorted(map(re.escape, OCCUPATIONS - WEAK_OCCUPATIONS), key=len, reverse=True))
_TRADE = re.compile(rf"(?!an? |the )(?:[\w-]+ )?(?:{_TRADES})\b", re.IGNORECASE)
_APPOSITION = re.compile(
    r",\s*(?:and\s+)?(?=(?:an?|from|based in|living in|\d{2} years old|the|currently|born)\b|\d{2}(?:\s*$|,)"
    rf"|(?:[\w-]+ )?(?:{_TRADES})(?= (?:in|at|from|for|by)\b|\s*$|[,.!]))",
    re.IGNORECASE,
)
_EXPERT = (
    r"(?:doctor|gp|vet|dentist|nurse|midwife|consultant|surgeon|therapist|\w+ologist|allergist|tests?|"
    r"(?:[\w-]+ )?(?:lab|clinic|hospital|scan|x-ray|results?|letter))"
)
_LEAD = re.compile(
    r"(?:hi there|hi|hello|hey there|hey|bro|dude|mate|man|guys|folks|well|so|therefore|thus|and|but|also|oh|ah|ok|"
    r"okay|yes|yeah|yep|yup|no(?! longer\b)|nope|actually|btw|"
    r"by the way|fyi|"
    r"just so you know|just to let you know|for the record|for context|for reference|for your information|note that|"
    r"please note that|"
    r"please note|note|(?:please |can you )?(?:remember|keep in mind|save|store|note down|know|memorize)(?: that| "
    r"this)?(?=[ :,]+(?:I|we|my|our)\b)|"
    r"do not forget(?: that)?(?= (?:I|we|my|our)\b)|"
    r"I am (?:glad|happy|pleased|proud|sorry|sad|delighted) to (?:report|say|tell you|announce)(?: that)?|"
    r"(?:I|we) (?:should|must|forgot to|have to|want to|wanted to|would like to|need to) (?:mention|say|add|tell "
    r"you|let you know|point out|admit)(?: that)?|I have to say(?: that)?|"
    r"you should (?:also )?know(?: that)?|you (?:can|should|may) remember(?: that)?|let me tell you(?: that)?|"
    r"(?:weirdly|strangely|surprisingly|oddly|happily|sadly|thankfully|oddly enough|plot twist|slight change|small fix|"
    r"quick fix|change of plans?|changed plans|new plan|plan b|good thing)(?=[,:]? \w)|"
    r"(?:from|since|as of|starting) (?:this|next|last|the)? ?(?:january|february|march|april|may|june|july|august|"
    r"september|october|november|december|monday|tuesday|wednesday|thursday|friday|week|month|year|today|then|spring|"
    r"summer|autumn|fall|winter)(?=,? (?:I|we|my|our)\b)|"
    r"honestly|personally|in fact|basically|anyway|unfortunately|sadly|luckily|fortunately|"
    r"since|because|given that|now|currently|right now|at the moment|these days|nowadays|recently|lately|plus|then|"
    r"correction|sorry|update|edit|ps|p\.s|good news|great news|bad news|big news|guess what|my bad"
    r"|my mistake|my error|oops|whoops|"
    r"typo|misspoke|I misspoke|hang on|hold on|scratch that|strike that|nah|ugh|argh|lol|haha|hm|hey so|small update|"
    r"heads up|funny enough|apparently|gotta admit|(?:on|having) (?:second|further) thoughts?|thinking about it|"
    r"wait|hmm|"
    r"it turns out(?: that)?|turns out(?: that)?|finally|sure|thanks(?: a lot| so much)?|thank you(?: so much)?|"
    r"great|nice|cool|perfect|awesome|good|(?:(?:damn|stupid|bloody) )?autocorrect|"
    r"as (?:I|you) (?:said|mentioned|know|told you)(?: before)?|like I said|the thing is(?: that)?|about me|fun "
    r"fact|quick (?:update|note)|one more thing|"
    r"first of all|first|second|secondly|also|additionally|moreover|besides|in case it (?:helps|matters)|if it "
    r"helps|if you ask me|if you must know|"
    r"to be honest|tbh|I mean|I meant to say(?: that)?|speaking of which|good morning|good evening|good afternoon|"
    r"as of (?:today|now)|as for me|"
    rf"(?:(?:the|my|our|her|his) )?(?:{_EXPERT} (?:says?|said|thinks|found)|{_EXPERT} told (?:me|"
    rf"us))(?: that)?(?= (?:I|my|"
    r"we|our|he|she|it)\b)|"
    r"(?:the|my|our) [\w ]{3,25}? (?:showed|shows|confirmed|confirms|proved|proves|revealed)(?: that)?(?= (?:I|my|"
    r"we|our)\b)|"
    r"last (?:week|month|year|night|summer|winter|spring|autumn|fall|weekend)|this (?:week|month|year|morning|weekend)|"
    r"yesterday|today|in (?:19|20)\d\d|a (?:week|month|year|few (?:days|weeks|months|years)) ago|for (?:me|us|"
    r"years))(?:\s*[,:!.…-]+\s*|\s+(?=\S))",
    re.IGNORECASE,
)
_CORRECTING = re.compile(
    r"(?:no(?! longer\b)|nope|nah|actually|correction|sorry|wait|update|my bad|my mistake|my error|oops|whoops|ups|"
    r"edit|I mean|"
    r"I meant|typo|misspoke|I misspoke|hang on|hold on|scratch that|strike that|turns out|it turns out|rather|"
    r"slight change|small fix|quick fix|change of plans?|changed plans|new plan|plan b|(?:damn |stupid |"
    r"bloody )?autocorrect)\b",
    re.IGNORECASE,
)
_ONLY_CORRECTS = re.compile(
    rf"(?:(?:oh|ah|ugh|hm+|well|and|but|so|ok|okay|uh|um|er|yeah|yikes|damn|shoot|gah)[ ,]+)*{_CORRECTING.pattern}"
    rf"(?:[ ,.]+(?:{_CORRECTING.pattern}|my|that|it))*",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(?:(?:and|but|so|ok|okay|hey|hi|hello|well|please|also|now|then|sorry)\b[,!]?\s+)*(?:should|can"
    r"|could|do(?! not)|does|"
    r"did|is|are|was|were|what|what's|who|who's|where|when (?:is|was|did|do|does|are|will|can|should)|why|"
    r"how(?! (?:I|we) [^?]*:)|which|whose|would|will|am|have (?:I|you|we)|has|"
    r"had(?= (?:I|you|we|he|she|it|they|anyone|there|my|our)\b)|shall|may I|might|tell me|show me|"
    r"give me|remind me "
    r"(?:what|who|where|when|how|why|of)|guess(?! what)|isn't|aren't|don't you)\b",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?:decision|update|note|status|plan|reminder|news) (?:for|on|about|re|regarding) (?P<about>[^:?!.]{3,40}):\s+",
    re.IGNORECASE,
)
_SUBJECTLESS = re.compile(
    r"(?P<lead>(?:(?:nice|great|ok|okay|cool|yes|yeah|thanks|also|btw|and|but|haha|lol|oh|ah|well|no|"
    r"actually)[,.!]? )*)"
    r"(?P<verb>love|hate|adore|cannot stand|prefer|live in|moved to|work as|work at|grew up in|born in|allergic to|"
    r"(?:traded|sold|quit|bought|adopted|cancel+ed|switched|swapped|gave up|dropped|ditched|stopped|left|lost|joined|"
    r"upgraded|replaced|dumped|haven't|have not|booked|tore|broke|finished)(?= (?:my|our|the|an?|it|from|to|in) | "
    r"(?-i:[A-Z])\w+ | \w+ing\b| run | seen )) "
    r"(?=\w)",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"(?:(?:hi|hey|hello|so|and|also|ok|please|thanks|thank you|great|sorry),? )*(?:(?:can|could|would|will) you |may "
    r"I ask you to |(?:I would|I'd|we would|we'd) (?:like|want|prefer|appreciate it if) (?:for )?you (?:to )?|"
    r"(?:I|we) (?:want|need) you to )(?:please |just )*(?=avoid|use|(?:forget|delete|remove|erase|"
    r"always|never|from now on|in future|call me|keep (?:your|the)|remember that)\b)",
    re.IGNORECASE,
)
_TAGGED = re.compile(
    r"\b(?:right|is it not|correct|yes|no|or|or not|true|huh|eh|ok|okay|remember)\s*\?\s*$",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"(?:and |but |so |or |well,? |also,? |hey,? |ok,? )*(?:if|unless|whenever|in case|provided|even if|say|were I|"
    r"had I|once|in (?:another|a different|my next|a past|a parallel) (?:life|world|universe)|in my dreams|"
    r"suppos(?:e|ing)|wish|i wish|when (?:I|we) (?:was|were|am old|retire|grow)|as a kid|as a child|growing up|"
    r"back when|back in|years ago)\b"
    r"(?! (?:it helps|it matters|you ask me|you must know|you need to know|anyone asks|that helps|you are curious|"
    r"you're curious|you are wondering))",
    re.IGNORECASE,
)
_UNREAL = re.compile(
    r"\b(?:would(?! (?:much )?rather\b.* than\b)|could|might|almost|nearly (?=\w+ed\b|bought)|if only|(?:I|"
    r"we)'d(?! (?:much )?rather\b.* than\b)|(?:joking|just kidding|(?<!am I )kidding)(?! "
    r"about)|"
    r"sarcas\w+|not really|lol jk|jk|/s|"
    r"supposedly|hypothetical\w*|i wish|in theory|in a perfect world|one day maybe)(?=\W|$)",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:say|says|said|saying|tell|tells|told|thinks?|thought|believes?|believed|claims?|claimed|asks?|asked|"
    r"wrote|writes|insists?|(?<!to )reports? (?:that|on|of)\b|reported|argues?|replied|answered|"
    r"texted|goes(?=[,:] )|"
    r"suggested|suggests|according to|"
    r"heard|read "
    r"that|quote|"
    r"quoting|dreamed|dreamt|complained)\b",
    re.IGNORECASE,
)
_OWN_REPORT = re.compile(
    r"\b(?:(?:I|we) (?:(?:also|always|usually|often|never|sometimes|mostly|only|have) )*(?:write|wrote|ask|tell|insist|"
    r"argue|believe|answer)\b|(?:I|we) (?:should have said|said|told|mentioned|asked|thought|heard|say|think|"
    r"already|forgot)|as (?:I|"
    r"you) (?:said|"
    rf"mentioned|told)|forget|{_EXPERT} (?:says|said|told)|not true|you asked|like I said|did I "
    r"(?:say|tell|mention)|"
    r"have I told|you said|says? (?:that )?(?:it|that|this|(?:the|my|our) [\w ]{2,20}) (?:is|was) (?:wrong|"
    r"outdated))\b",
    re.IGNORECASE,
)


def whole_of(sentence: str, evidence: str, said_at: datetime) -> Clause | None:
    """The sentence, normalised; None when nothing is left of it."""
    text = _POLITE.sub("", normalised(re.sub(r"^\s*(?:[-*•+]|#+|\d{1,2}[.)])\s+", "", sentence)))
    if len(text) > 1 and text.endswith("?") and _POLITE.match(normalised(sentence)):
        text = text[:-1]
    text = re.sub(r"(?<=\w) \((?:aged? )?\d{1,3}(?: ?(?:y|yo|yrs?|years?|months?)(?: old)?)?\)", "", text)
    label = _LABEL.match(text)
    text = opened(_SUBJECTLESS.sub(_with_subject, text[label.end() :] if label else text))
    about = label["about"].strip() if label else None
    return Clause(text=text, evidence=evidence, said_at=said_at, about=about) if text else None


def _with_subject(match: re.Match[str]) -> str:
    """“love anything with paprika” leaves out its “I”."""
    if match.start() > 0:
        return match.group()
    verb = match["verb"].lower()
    return f"{match['lead']}I {'am ' if verb == 'allergic to' else 'was ' if verb == 'born in' else ''}{verb} "


def is_asked(whole: Clause) -> bool:
    """Whether the whole sentence is a question."""
    return _ASKS.match(whole.text) is not None


def is_supposed(whole: Clause) -> bool:
    """Whether the sentence begins with what is not so, or was long ago ("if", "when I was a child")."""
    return _CONDITION.match(whole.text) is not None


def clauses_of(whole: Clause) -> Iterator[Clause]:
    """The clauses of one sentence that may state something of the speaker."""
    text, evidence, said_at = whole.text, whole.evidence, whole.said_at
    pieces = _pieces(text)
    if text.endswith("?"):
        if _TAGGED.search(text):
            return
        pieces = pieces[:-1] or _before_question(pieces)
    marked, wrong = False, ""
    for piece in pieces:
        if _ONLY_CORRECTS.fullmatch(piece.strip(" ,.!")) and not (_TAKES_BACK.match(piece) and piece is pieces[-1]):
            marked = True
            continue
        if _REPORTED.search(piece) and not _OWN_REPORT.search(piece):
            return
        plain, corrects = without_leads(piece)
        marked = marked or corrects or _ADMITS_WRONG.search(piece) is not None
        if _IS_WRONG.fullmatch(plain) and piece is not pieces[-1]:
            marked, wrong = True, plain.removesuffix(" anymore")
            continue
        whole_again = restored(plain)
        plain = normalised(whole_again) if whole_again != plain else plain
        if wrong and plain and not plain.lower().startswith("it "):
            plain, wrong = f"{plain.rstrip(' .!')}, {wrong[0].lower()}{wrong[1:]}", ""
        if plain and not _UNREAL.search(plain) and not _CONDITION.match(plain):
            corrected = marked or _NOW.search(piece) is not None
            yield Clause(
                text=plain,
                evidence=evidence,
                said_at=said_at,
                is_correction=corrected,
                about=whole.about,
            )


_ADMITS_WRONG = re.compile(
    r"\b(?:I|we|you) (?:\w+ ){0,2}?(?:counted|said|wrote|typed|got|had|remembered|read|heard|told you|gave you|put|"
    r"entered|"
    r"spelled)"
    r" (?:(?:it|that|this|them|the \w+|you the) )?(?:\w+ )?(?:wrong|wrongly|incorrectly|by mistake)\b"
    r"|\b(?:I|we) (?:must have |may have |was )?(?:misspoke|mistaken|miscounted|misread|mistyped|misremembered|"
    r"misheard|mixed|"
    r"confused|"
    r"swapped)\b|\b(?:you|I) (?:swapped|mixed)\b|\b(?:is|was|were) (?:wrong|a typo|a mistake|my mistake)\b",
    re.IGNORECASE,
)
"""Whoever says this says next what is right."""

_IS_WRONG = re.compile(
    r"not (?!\w+ing\b)(?:in |on |at |for |the |an? )?[\w$€£'-]+(?: [\w$€£'-]+)?(?: anymore)?[.!]?", re.IGNORECASE
)
"""“Not nuts, I'm allergic to shellfish”: what the next clause has in its place."""

_TAKES_BACK = re.compile(r"(?:scratch|strike) that", re.IGNORECASE)
"""Before other words it marks a correction; alone it takes back."""

_OPENS = re.compile(r"(?:(?:I|we|my|our)\b|as an? \w+ |being \w)", re.IGNORECASE)


def _before_question(pieces: list[str]) -> list[str]:
    """“My sister loves board games, gift ideas?”: what stands before the comma, when it begins as a statement."""
    told, comma, asked = pieces[0].rpartition(", ") if pieces else ("", "", "")
    if comma and len(asked.split()) > 7 and not _ASKS.match(asked):
        told, comma, _ = pieces[0].partition(", ")
    plain, _ = without_leads(told)
    plain = restored(plain)
    return [told] if comma and _OPENS.match(plain) and len(told.split()) > 2 else []


def without_leads(text: str) -> tuple[str, bool]:
    """The clause without what leads into it ("btw,", "no, actually"), and whether that marks a correction."""
    corrects, as_it_was = False, text
    while (lead := _LEAD.match(text)) is not None and lead.end() < len(text):
        corrects = corrects or _CORRECTING.match(text) is not None
        text = text[lead.end() :]
    return text if text is as_it_was else normalised(text), corrects


_IS_NOT = re.compile(r"\b(?:is|are|was)(?:n[’']t| not) [^,;.!?]{1,40}$", re.IGNORECASE)
_BUT_IS = re.compile(r"(?:it|that)(?:[’']s| is) (?!not\b)[^,;]{1,40}$", re.IGNORECASE)
"""“It isn't Rex, it's Max”: one statement, of what is wrong and what is right."""


_NOT_THAT = re.compile(r"\bnot [^,;.!?]{1,40}$", re.IGNORECASE)
_MEANT = re.compile(r"I (?:meant|mean) (?P<x>[^,;]{1,40})$", re.IGNORECASE)
"""“Not Portuguese, I meant Romanian”."""


def _pieces(text: str) -> list[str]:
    """The sentence cut where a new statement begins; what leaves out its "I" gets it back."""
    found: list[str] = []
    for part in (one for cut in CUT.split(text) for one in _run_on(cut)):
        piece = part
        if not piece.strip():
            continue
        if found and _IS_NOT.search(found[-1]) and _BUT_IS.match(piece):
            found[-1] = f"{found[-1]}, {piece.strip()}"
            continue
        if found and (wrong := _NOT_THAT.search(found[-1])) and (right := _MEANT.match(piece)):
            found[-1] = f"{wrong.group()}, but {right['x'].strip()}"
            continue
        doings = _TWO_DOINGS.match(piece.strip())
        if doings is not None:
            found.append(f"{doings['who']} {doings['one']}")
            piece = f"{doings['who']} {doings['two']}"
        if found and (THIRD.match(piece) or (THIRD_TOO.match(piece) and _speaks_of(found[-1]) is not None)):
            found[-1:] = _said_on(found[-1], piece)
            continue
        if found and THIRD_TOO.match(piece) and not piece.startswith("is ") and " " in found[-1].strip():
            found[-1] = f"{found[-1]} and {piece}"
            continue
        if found and LEFT_OUT.match(piece) and not re.match(r"(?:do not|never|have|are)\b.{0,12}\byou\b", piece):
            piece = _completed(found[-1], piece)
        found += _appositions(piece.strip())
    return found


_TWO_DOINGS = re.compile(
    r"(?P<who>I am|we are) (?P<one>[a-z]+ing [^,;]{2,50}?) and (?P<two>(?!going|doing)[a-z]+ing (?:at|in|with|"
    r"on|to) .+)",
    re.IGNORECASE,
)
"""“I am turning 40 in May and celebrating at the club”."""

_RUNS_ON = re.compile(r"(?P<before>[\w'!]+) (?=(?:I am|I have|I live|I work|my \w+ is|wait|it is) \w)", re.IGNORECASE)
_LEADS_ON = frozenset(
    """
    that because and but if when so since what who where while think know as though although say said guess mean whether
    how why or than like until before after feel hope believe whenever now then which all everything thing things like
    says tells told found
    well yes no hi hello also way time sure sorry unless once to with
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
"""After these a clause that begins with "I" goes on; after others, where no comma stands, it is a new one."""


def _run_on(text: str) -> Iterator[str]:
    """“my birthday is june 3 I am turning 16”, written without a stop, is two clauses."""
    begin = 0
    for found in _RUNS_ON.finditer(text):
        if found["before"].lower() not in _LEADS_ON and found.start() - begin > 5:
            yield text[begin : found.end()]
            begin = found.end()
    yield text[begin:]


_INFINITIVE = re.compile(
    r"\b(?:will|would|can|could|should|might|may|must|let|going|cannot|trying|not|to (?=[a-z]))\b", re.IGNORECASE
)
"""After these a verb that follows "and" is no statement ("I'll try it and use ...")."""


_SUBJECT = re.compile(
    rf"(I|we|(?:my|our) (?:best |older |younger |little |big "
    rf")?(?:{'|'.join(sorted(map(re.escape, PEOPLE), key=len, reverse=True))})"
    r"(?: (?-i:[A-Z])\w+)?)\b(?!')",
    re.IGNORECASE,
)


def _completed(before: str, piece: str) -> str:
    plain, _ = without_leads(before)
    subject = _SUBJECT.match(plain)
    if subject is None:
        return piece
    if _INFINITIVE.search(plain):
        return piece
    return f"{subject.group(1)} {'have ' if re.match(ANOTHER, piece, re.IGNORECASE) else ''}{piece}"


_SAID_OF = re.compile(
    rf"(?:(?:my|our) (?:{'|'.join(sorted(map(re.escape, PEOPLE), key=len, reverse=True))})(?: (?-i:[A-Z])\w+)?|he|she|"
    r"(?!(?:The|This|That|These|Those|It|There|An?|What|Which|Who|Its|Their|Your|You|Each|Every|Both|All|Some|One)\b)"
    r"(?-i:[A-Z])\w+)(?= [a-z])",
    re.IGNORECASE,
)


def _speaks_of(before: str) -> str | None:
    """Of whom a clause speaks, where that is somebody else."""
    subject = _SAID_OF.match(without_leads(before)[0])
    return None if subject is None or re.match(r"I\b", subject.group()) else subject.group()


def _said_on(before: str, piece: str) -> list[str]:
    """Both clauses, the second with the subject of the first; one clause where that has none that it could be."""
    subject = _speaks_of(before)
    return [f"{before} and {piece}"] if subject is None else [before, f"{subject} {piece}"]


def _appositions(piece: str) -> list[str]:
    """“I am Sam, a nurse from Lyon” says three things of “I am”."""
    plain, _ = without_leads(piece)
    if re.match(r"I am\b", plain, re.IGNORECASE) is None:
        return [piece]
    first, *more = _APPOSITION.split(piece)
    if more and _IS_DOING.match(plain):  # "a" behind the comma is then what it is done with
        more = [part for part in more if not re.match(r"(?:an?|the)\b", part, re.IGNORECASE)]
        first = piece if not more else first
    return [first, *(f"I am {_with_article(part)}" for part in more)]


_IS_DOING = re.compile(
    r"I am (?:\w+ly |also |now |still |just )*(?:\w+ing|excited|interested|happy|glad)\b", re.IGNORECASE
)


def _with_article(part: str) -> str:
    """“Physiotherapist in Graz” with the article that a list leaves out."""
    return f"{'an' if part[:1].lower() in 'aeiou' else 'a'} {part}" if _TRADE.match(part) else part
