"""What a message says in its writer's own name: sentences, and the clauses of them that may state something.

Quotes, code, pasted mail and chats, lists and markup are masked at the same length, so that the evidence of a sentence
is cut from the message as it was written. Questions, conditions, other people's words and fiction are left out.
"""

import functools
import re
from collections.abc import Iterator

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.memory import Memory, Trust
from memproxy.core.text import sentences

MASK = "\ufffc"  # stands for text that is not the writer's own statement; a value that holds it is no value
_MOST_CHARACTERS = 20_000
_MOST_SENTENCES = 200
_LONGEST_SENTENCE = 400

_MOST_READ = 2_048  # messages whose sentences are kept: what was said just before is read again with each change

_QUOTE = re.compile(r"[\"“„«]")
_CLOSING = {'"': '"', "“": "”", "„": "“", "«": "»"}
_SINGLE_OPEN = re.compile(r"(?<!\w)['‘](?=\w)")
_SINGLE_CLOSE = re.compile(r"(?<=[\w.!?,])['’](?!\w)")
_SHORT_QUOTE = 6  # words of a quotation that may be a name or a title; a longer one is somebody's words
_LONG_SINGLE = 12
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i’m|me|my|we|our|ich|mein|yo|mi|je|mon)\b", re.IGNORECASE)
_LISTED = re.compile(r"\A[ \t]{0,3}(?:[-*•+]|\d{1,2}[.)])[ \t]")
_SPEAKER = re.compile(r"\A[ \t]{0,9}(?:\[[^\]\n]{1,30}\][ \t]{0,3})?(?P<who>[A-Z][\w.]{0,20})(?: \w{1,20})?[ ]?:[ \t]")
_OWN_LABELS = frozenset(
    "correction note update fyi ps edit about fact me reminder btw also first context decision plan news".split()  # noqa: SIM905
)
_CHAT_LABELS = frozenset("user assistant human ai system bot customer agent speaker interviewer q a".split())  # noqa: SIM905
_MAIL = re.compile(r"\A[ \t]{0,9}(?:from|to|subject|sent|cc):[ \t]", re.IGNORECASE)
_LETTER = re.compile(r"\A[ \t]{0,9}(?:dear|to whom it may concern)\b[^\n]{0,60}$", re.IGNORECASE)
_TAGGED = re.compile(r"<([A-Za-z][\w-]{1,30})\b[^<>\n]{0,200}>[^<]{0,4000}</\1>")

_STAGE = re.compile(
    r"\b(?:back ?story|role ?-?play\w{0,4}|my character|20 questions|twenty questions|charades|d&d|dnd|npc|half-elf"
    r"|dungeon master|text adventure|i am an animal|guess (?:who|what) i am|let(?:'|’| u)?s play|let(?:'|’"
    r"| u)?s practi[sc]e"
    r"|pretend|in character|interview me as|act as|persona|dating profile|fictional|made[- ]up person|first[- ]person"
    r"|(?:answer|reply|respond|talk|speak|write)(?: to me| back)? (?:as|like) an? (?!list|table)"
    r"|you(?:'re|’re| are| be| play) the \w{3,20}"
    r"|(?:^|[.!?] )(?:please )?be (?:my|the|an?) (?!teacher|editor|tutor|mentor|coach)\w{3,20})\b",
    re.IGNORECASE,
)
"""A game or an invented person begins: the messages after it may be spoken by somebody else."""

_FICTION = re.compile(
    r"\b(?:imagine|suppos(?:e|ing)|hypothetical\w{0,4}|let(?:'|’| u)?s say|assum(?:e|ing)|for the sake of argument"
    r"|thought experiment|what if|as if i|for (?:the|this) (?:exercise|assignment|scenario|simulation)|in this scenario"
    r"|in my (?:novel|story|game|book|screenplay|script|dream|campaign)|my (?:protagonist|hero|villain|avatar|oc|sim)"
    r"|(?:just|only|i am|i'm|i’m) (?:kidding|joking)|point of view of|perspective of|playing the role|play a game"
    r"|(?<!was )(?<!is )\b(?:an?|my|short|this) (?:\w{1,15} )?(?:story|poem|song|novel|scene|dialogue|monologue|joke"
    r"|limerick|haiku|sonnet|screenplay|fairy tale|fable|riddle|rap|cover letter|personal statement|bio|word problem)"
    r"|lyrics|probability|lorem|dummy|test user|sample (?:email|bio|profile|person|user))\b",
    re.IGNORECASE,
)
"""Words of messages whose speaker is not, or not surely, their writer."""

_HANDED_OVER = re.compile(
    r"\b(?:translat\w{1,4}|re-?writ\w{1,3}|proof-?read\w{0,3}|paraphras\w{1,3}|(?<!let me )rephras\w{1,3}"
    r"|summari[sz]\w{1,3}|polish|grammar|spell ?check|transcribe|reword|sentiment|example|e\.g\.|this text|this email"
    r"|this message|the following|how (?:do|would) (?:i|you|we) say|feedback on|improve|shorten|correct this|fix this"
    r"|classify|analy[sz]e|explain)(?!\w)",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\b(?:pass ?words?|pass ?codes?|pass ?phrases?|pin|api[- _]?keys?|secrets?|tokens?|private keys?|ssn|credentials?"
    r"|social security|credit cards?|card number|debit card|cvv|cvc|iban|account number|seed phrase|recovery \w{4,6}"
    r"|2fa|otp|passwort|kennwort|contraseña|mot de passe|passport number|security \w{4,8}|routing number|tax id"
    r"|bank details|logins?)\b|\[redacted:",
    re.IGNORECASE,
)
_ABBREVIATED = re.compile(r"(?:\A|\s)(?:St|Dr|Mr|Mrs|Ms|Prof|No|approx|vs|e\.g|i\.e|etc|Mt|Jr|Sr)\.\Z")
_LEAD = re.compile(
    r"\A(?:(?:hi there|hi|hello|hey|well|so|and|but|also|oh|ah|ugh|ok|okay|yes|yeah|yep|nah|nope|no(?! longer\b"
    r"| more\b)|actually|btw|by the way|fyi|just so you know|for the record|for context|for reference|please note|note"
    r"|remember|don't forget|honestly|personally|in fact|basically|anyway|unfortunately|sadly|luckily|thankfully"
    r"|finally|correction|small correction|quick correction|sorry|update|small update|quick update|quick note|edit|ps"
    r"|good news|bad news|big news|guess what|my bad|my mistake|oops|whoops|typo|i misspoke|let me rephrase|hang on"
    r"|hold on|wait|haha|lol|hm{1,5}|it turns out|turns out|sure|thanks|thank you|great|nice|cool|perfect|awesome"
    r"|like i said|as i said|to be honest|tbh|first of all|good morning|good evening|morning|about me|change of plans?"
    r"|plot twist|now|currently|plus|then|since|because|as of (?:today|now)|as you know|yup|quick one|from (?:today"
    r"|now) on|nowadays|these days|i should mention|i forgot to mention|one more thing"
    r"|fun fact)(?: that)?(?:[ ,.!:;…–—-]{1,4}|\Z)){1,5}",
    re.IGNORECASE,
)
_CORRECTS = re.compile(
    r"\b(?:no|nope|nah|actually|correction|sorry|wait|update|my bad|my mistake|oops|whoops|edit|typo|misspoke|rephrase"
    r"|hang on|hold on|scratch that|strike that|turns out|change of plans?|plot twist)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\A(?:should|can|could|do(?! not)|does|did|is|are|was|were|what|what's|who|who's|where|when (?:is|was|did|do|does"
    r"|are|will|can|should)|why|how|which|whose|would|will|am i|have (?:i|you|we)|has|shall|may i|might|tell me|show me"
    r"|give me|remind me|guess|isn't|aren't|don't you|any (?:tips|ideas|advice)|please (?!note|remember|forget|always"
    r"|never|call|no))\b",
    re.IGNORECASE,
)
_UNSURE = re.compile(
    r"\b(?:if|unless|would|wouldn't|could|couldn't|should|might|maybe|perhaps|probably|wish|hope|hoping|almost|nearly"
    r"|considering|thinking (?:of|about)|not sure|unsure|i think|i guess|kidding|joking|supposedly|in theory|whether"
    r"|either|as a (?:kid|child|teenager)|growing up|used to|when (?:i|we) (?:was|were)|back when|years ago|one day"
    r"|some ?day|i'd|we'd|or so|allegedly|yeah,? right|oh sure|as if|apparently everyone|i feel like|tempted|until)\b",
    re.IGNORECASE,
)
"""What is supposed, wished, past or doubted says nothing of now."""

_SARCASTIC = re.compile(
    r"\A(?:(?:oh|yeah|wow|well),? (?:great|sure|joy|yes|wonderful|fantastic|perfect|right|lovely|brilliant)\b"
    r"|just what i needed"
    r"|(?:sure|right|yeah|yes|ok|of course),? and (?:i am|i'm|pigs|my)\b|because (?:clearly|obviously))",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?<!\bi )(?:says|said|tell|tells|told|thinks|thought|believes|claims|asked|asks|wrote|writes|heard|reads|quote"
    r"|according|replied|answered|texted|called me|joked)\b",
    re.IGNORECASE,
)
_SPLIT = re.compile(
    r"(?:[,;:]| [-–—])(?: (?:and|but|so|because|since|also|now|though|yet)){0,2} (?=(?:i|we|my|our|i'm|we're"
    r"|i've|the|it|it's)\b)"
    r"|[;] | (?:and|but|so|because|since|yet)(?: also| now)? (?=(?:i|we|my|our|i'm|we're|i've|we've)\b)",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"(?:[,;]| [-–—])(?: (?:and|so|but))? (?=(?:what|which|how|where|who|why|when|can|could|should|is|are|do|does|would"
    r"|will|any|tips|ideas|recommend|suggest)\b)",
    re.IGNORECASE,
)
"""Where a question begins behind what is told ("I live in Utrecht, which gym is open late?")."""

_SHARED = re.compile(
    r" and (?=(?:work|live|love|like|hate|have|drive|speak|own|am|prefer|use|play|study|weigh|do not|don't|can't)\b)",
    re.IGNORECASE,
)
_PLACED = re.compile(r"(?<=\w),? (?:and )?(?=(?:currently )?(?:based|living) in )", re.IGNORECASE)
_TAIL = re.compile(
    r"(?:[ ,]{1,2}(?:now|btw|by the way|too|as well|though|these days|nowadays|at the moment|right now|currently|haha"
    r"|lol|thanks|thx|thank you|please|again|anyway|actually|instead|sorry|here|already|of course|tbh"
    r"|in case it matters|since (?:last )?\w{3,10}|i swear|with a passion|:\)|;\)|:\())\Z",
    re.IGNORECASE,
)
_DAY = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w{0,6} \d|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_PLAIN = (
    ("I am", re.compile(r"\b(?:i'm|im)(?= )", re.IGNORECASE)),
    ("I have", re.compile(r"\b(?:i've|ive)(?= )", re.IGNORECASE)),
    ("we are", re.compile(r"\bwe're\b", re.IGNORECASE)),
    ("we have", re.compile(r"\bwe've\b", re.IGNORECASE)),
    ("it is", re.compile(rf"\b(?:it's|its(?= (?:now|not|actually|called|named|\d|{_DAY})))", re.IGNORECASE)),
    ("it is", re.compile(r"\bit should (?:be|say|read)\b", re.IGNORECASE)),
    ("that is", re.compile(r"\bthat's\b", re.IGNORECASE)),
    ("cannot", re.compile(r"\b(?:can't|cant|can not)\b", re.IGNORECASE)),
    ("do not", re.compile(r"\b(?:don't|dont)\b", re.IGNORECASE)),
    (r"\1 not", re.compile(r"\b(does|did|is|are|was|were|has|have)n'?t\b", re.IGNORECASE)),
    ("anymore", re.compile(r"\b(?:any more|any longer)\b", re.IGNORECASE)),
    (r"\1 have", re.compile(r"\b(I|we) have got\b", re.IGNORECASE)),
    (r"\1 birthday", re.compile(r"\b(my|our|'s) b-?day\b", re.IGNORECASE)),
    (r"\1", re.compile(r"\b((?:I|we|am|are|is|have|has|do|not) )(?:(?:really|actually|currently|just|absolutely|totally"
                       r"|also|definitely|mostly|recently|finally|still|basically|officially|honestly|simply|mainly|very"
                       r"|quite|kinda|literally|usually) ){1,3}", re.IGNORECASE)),
)  # fmt: skip
"""Contractions written out, and adverbs that change nothing left out."""


class Clause(msgspec.Struct, frozen=True):
    """A clause of what the user says, in plain form; ``corrects``: words like "no," or "actually" stand before it."""

    text: str
    corrects: bool = False


class Sentence(msgspec.Struct, frozen=True):
    """A sentence: plain and whole, as it was written, and the clauses that may state something. One that ``asks`` is a
    question or condition: an order to forget is read of it, and what is told before the question.
    """

    whole: Clause
    evidence: str
    clauses: tuple[Clause, ...] = ()
    asks: bool = False


def sets_a_stage(turn: Memory) -> bool:
    """Whether a game or an invented person begins, so that the turns after it may be spoken by somebody else."""
    return turn.trust is Trust.USER and _STAGE.search(mask(turn.content[:_MOST_CHARACTERS])) is not None


def sentences_said(turn: Memory) -> tuple[Sentence, ...]:
    """The sentences in which the user speaks in his own name, in order; none of other roles."""
    is_users = turn.trust is Trust.USER and turn.metadata.get("role", "user") == "user"
    return _sentences_of(turn.content) if is_users else ()


@functools.lru_cache(_MOST_READ)
def _sentences_of(content: str) -> tuple[Sentence, ...]:
    result, corrects = list[Sentence](), False
    for text, evidence in _own_sentences(strip_blocks(content)[:_MOST_CHARACTERS]):
        rest = _LEAD.sub("", f"{text} ", count=1).strip() if _LEAD.match(text) else text
        corrects = corrects or _CORRECTS.search(text[: len(text) - len(rest)]) is not None
        if not rest:
            continue  # "Sorry, wait." leads to the next sentence
        if _SARCASTIC.match(text):
            continue
        whole = Clause(plain(rest), corrects)
        asks = text.endswith("?") or _ASKS.match(rest) is not None or _is_not_his(whole.text)
        statement = whole if not asks else Clause(_before_question(rest), corrects)
        result.append(Sentence(whole, evidence, tuple(_clauses(statement)), asks))
        corrects = False
    return tuple(result)


def _before_question(text: str) -> str:
    """What a sentence that asks tells before its question; nothing of what is not told for sure."""
    start = _QUESTION.split(text, maxsplit=1)[0] if text.endswith("?") else text
    if start.endswith("?") or _ASKS.match(start) is not None:
        return ""
    bare = plain(start)
    return "" if _is_not_his(bare) else bare


def _is_not_his(text: str) -> bool:
    return _UNSURE.search(text) is not None or _REPORTED.search(text) is not None


def _own_sentences(original: str) -> Iterator[tuple[str, str]]:
    """Sentences, masked and as written, up to where a text is handed over to be worked on."""
    masked = mask(original)
    if _FICTION.search(masked) or _STAGE.search(masked):
        return
    for count, (begin, end) in enumerate(_spans(masked)):
        sentence = masked[begin:end]
        if count >= _MOST_SENTENCES or _HANDED_OVER.search(sentence):
            return
        if len(sentence) <= _LONGEST_SENTENCE and not _SECRET.search(sentence) and sentence.strip(MASK + " "):
            yield " ".join(sentence.replace("’", "'").split()), original[begin:end]


def _spans(masked: str) -> Iterator[tuple[int, int]]:
    """Where the sentences are; one that an abbreviation cut is put together again."""
    position, open_at = 0, None
    for sentence in sentences(masked):
        begin = masked.find(sentence, position)
        position = begin + len(sentence)
        begin = begin if open_at is None else open_at
        open_at = begin if _ABBREVIATED.search(sentence[-8:]) and position - begin < _LONGEST_SENTENCE else None
        if open_at is None:
            yield begin, position
    if open_at is not None:
        yield open_at, position


def _clauses(whole: Clause) -> Iterator[Clause]:
    for index, part in enumerate(_SPLIT.split(whole.text)):
        first, *shared = _SHARED.split(part) if re.match(r"(?:i|we)\b", part, re.IGNORECASE) else [part]
        first, *placed = _PLACED.split(first, maxsplit=1)
        for text in (first, *(f"I {tail}" for tail in shared), *(f"I am {tail}" for tail in placed)):
            bare = plain(_LEAD.sub("", text, count=1) if _LEAD.match(text) and index else text)
            if bare:
                yield Clause(bare, whole.corrects or (index > 0 and _CORRECTS.match(text) is not None))


def plain(text: str) -> str:
    """The text with contractions written out, without what closes it ("now", "btw") and without its full stop."""
    text = text.strip(" .!,;:…")
    for instead, pattern in _PLAIN:
        text = pattern.sub(instead, text)
    for _ in range(3):
        if (tail := _TAIL.search(text[-60:])) is None:
            break
        text = text[: len(text) - len(tail[0])].rstrip(" .!,;")
    return text.rstrip(" .!,;")


def mask(text: str) -> str:
    """The text with everything in it that is not its writer's own prose masked, at the same length."""
    text = _TAGGED.sub(lambda match: _blank(match[0]), text)
    lines = text.split("\n")
    speakers = {index: match["who"].lower() for index, line in enumerate(lines) if (match := _SPEAKER.match(line))}
    other_speakers = {index: who for index, who in speakers.items() if who not in _OWN_LABELS}
    is_chat = len(other_speakers) > 1 or any(who in _CHAT_LABELS for who in other_speakers.values())
    headed = sum(_MAIL.match(line) is not None for line in lines) > 1
    fence, pasted, masked = "", False, []
    for index, line in enumerate(lines):
        begins = line.lstrip(" \t")[:3]
        is_fence = begins in ("```", "~~~") and fence in ("", begins)
        pasted = pasted or (headed and _MAIL.match(line) is not None) or _LETTER.match(line) is not None
        # quoted, a row of a table, indented as code or an item of a list
        apart = line.startswith(("    ", "\t")) or line.lstrip()[:1] in (">", "|") or _LISTED.match(line) is not None
        hidden = is_fence or bool(fence) or pasted or (is_chat and index in other_speakers) or apart
        fence = ("" if fence else begins) if is_fence else fence
        masked.append(_blank(line) if hidden else _without_quotes(line))
    return "\n".join(masked)


def _blank(text: str) -> str:
    return "".join(character if character == "\n" else MASK for character in text)


def _without_quotes(line: str) -> str:
    """A line with its quotations masked, unless one is a name or a title."""
    position, pieces = 0, []
    while (match := _QUOTE.search(line, position)) is not None:
        end = line.find(_CLOSING[match[0]], match.end())
        if end < 0:
            break
        pieces += [line[position : match.start()], _mask_quotes(line[match.start() : end + 1])]
        position = end + 1
    return _without_single_quotes("".join([*pieces, line[position:]]))


def _without_single_quotes(line: str) -> str:
    position, pieces = 0, []
    while (match := _SINGLE_OPEN.search(line, position)) is not None:
        end = _SINGLE_CLOSE.search(line, match.end())
        if end is None:
            break
        quote = line[match.start() : end.end()]
        pieces += [line[position : match.start()], _blank(quote) if len(quote) > _LONG_SINGLE else quote]
        position = end.end()
    return "".join([*pieces, line[position:]])


def _mask_quotes(text: str) -> str:
    if len(text.split()) > _SHORT_QUOTE or _FIRST_PERSON.search(text):
        return _blank(text)
    return f" {text[1:-1]} "
