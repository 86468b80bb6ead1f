"""What a message itself states about its speaker: questions, quotes, code, pasted text, fiction and requests left out.

Text that is not the speaker's own is masked at the same length, so that the evidence of a sentence is cut from the
message as it was written.
"""

import re
from collections.abc import Iterator

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.memory import Memory, Trust
from memproxy.core.text import sentences
from memproxy.core.turn import LONG_TEXT
from memproxy.learn.rules.clauses import clauses_of, is_asked, is_supposed, whole_of
from memproxy.learn.rules.foreign_changes import in_english
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.presupposed import presupposed
from memproxy.learn.rules.repairs import repaired
from memproxy.learn.rules.values import MASK

_MOST_CHARACTERS = 100_000
_MOST_SENTENCES = 400
_LONGEST_SENTENCE = 600

_FOREIGN_TEXT = (
    re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)"),
    re.compile(r"(?m)^[ \t]*(?:>|\|).*$"),
    re.compile(r"<([A-Za-z][\w-]{1,30})\b[^<>\n]{0,200}>[^<]{0,20000}</\1\s*>"),
    re.compile(r"(?m)^(?: {4,}|\t).*$"),
)
_QUOTED = re.compile(
    r"“[^”\n]{1,2000}”|«[^»\n]{1,2000}»|„[^“\n]{1,2000}“|(?<!\w)\"[^\"\n]{1,2000}\"(?!\w)|"
    r"(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w)){12,2000}'(?!\w)"
)
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i’m|me|my|we|our|ich|mein|yo|mi|je|mon)\b", re.IGNORECASE)
_SPEAKER = re.compile(r"(?m)^[ \t]*(?:\[[^\]\n]{1,30}\]\s*)?(?P<who>[A-Z][\w.]{0,20})(?: \w{1,20})?\s?:[ \t].*$")
_OWN_LABELS = frozenset(
    {
        "correction",
        "note",
        "update",
        "fyi",
        "ps",
        "edit",
        "about",
        "fact",
        "me",
        "reminder",
        "btw",
        "also",
        "first",
        "context",
    }
)
_OWN_LABEL = re.compile(rf"\s*(?:{'|'.join(sorted(_OWN_LABELS))})\s*:", re.IGNORECASE)
_CHAT_LABELS = frozenset(
    {
        "user",
        "assistant",
        "human",
        "ai",
        "system",
        "bot",
        "customer",
        "agent",
        "speaker",
        "interviewer",
        "q",
        "a",
    }
)
_MAIL = re.compile(r"(?mi)^[ \t]*(?:from|to|subject|sent|cc):[ \t].*$")
_GREETED_LETTER = re.compile(r"(?mi)^[ \t]*(?:dear|to whom it may concern)\b[^\n]{0,60},?\s*$")

_FICTION = re.compile(
    r"\b(?:pretend|imagine|suppose|supposing|hypothetically|role[- ]?play(?:ing)?|let's say|lets say|let us say|"
    r"assume|assuming|"
    r"act as|you are now|you're now|in character|in my (?:novel|story|game|book|screenplay|script|dream|campaign|"
    r"fanfic)|"
    r"my (?:character|protagonist|hero|villain|persona|avatar|player character)|for the sake of argument|thought "
    r"experiment|"
    r"what if|as if i|a character who|for (?:the|this) (?:exercise|assignment|scenario|simulation)|in this "
    r"(?:scenario|simulation|hypothetical|thought experiment)|my (?:oc|sim)\b|(?:just|only|i am|i'm|i’m) "
    r"(?:kidding|joking)(?! "
    r"about)|from "
    r"the (?:perspective|point of view|viewpoint) of|in the "
    r"voice of|playing the role|"
    r"a (?:story|poem|song|novel|scene|dialogue|monologue|joke|limerick|haiku|screenplay|fairy tale|"
    r"fable)\b[^.\n]{0,60}\b(?:about|where|in which|who|with|from)|"
    r"(?:say|answer|reply|respond|speak|write|talk) (?:it )?(?:as|like) (?:a|an|if|the))\b",
    re.IGNORECASE,
)
_GAME = re.compile(
    r"\b(?:back ?story|role ?play\w*|my character|our characters|20 questions|twenty questions"
    r"|charades|d&d|dnd|d ?& ?d|dungeons|half-elf|half-orc|npc|"
    r"dungeon master|(?:lets|let's|let us) play|play a game|text adventure|you are (?:now )?(?:a|an"
    r"|my) (?:\w+ ){0,2}(?:wizard|pirate|detective|king|queen|dragon|vampire|"
    r"interviewer|character|npc|knight|alien|robot|therapist|villain)|i am an animal|guess (?:who"
    r"|what) i am|who am i:"
    r"|level \d+ (?:wizard|mage|warrior|cleric|rogue|druid|paladin|bard|ranger|monk|sorcerer|warlock|fighter|elf)"
    r"|(?:it is|it's|its) (?:my|your) (?:turn|move)|riddle|marbles?|probability (?:of|that)|what(?:'s|"
    r" is) the probability|word problem"
    r"|dice|coin flip|pretend|persona|fictional|made-up|made up (?:person|"
    r"character|user|name)|invented (?:person|character)|dating profile|tinder|hinge|bumble|bio for"
    r"|cover letter|in character|fan ?fic\w*|short story|novel|screenplay|"
    r"sample (?:cover letter|bio|profile|person|email|user)|test user|dummy|lorem|personal statement"
    r"|monologue|haiku|sonnet|limerick|lyrics?|verse|poem|stanza|rap)\b",
    re.IGNORECASE,
)
"""Whoever speaks after these is not, or not surely, the user."""

_FICTION_BEGINS = re.compile(
    r"\b(?:writ\w+|working on|read|help (?:me )?with) (?:an?|my|this|the) (?:\w+ ){0,2}(?:story|novel|screenplay|"
    r"play|fan ?fic\w*|poem|song|script|character|scene|role ?play|campaign)\b",
    re.IGNORECASE,
)
_TEXT_NOUN = (
    r"(?:e-?mail|letter|article|text|message|review|post|log|bio|paragraph|quote|lyrics|script|dialogue|poem|story|"
    r"transcript|excerpt|essay|note|tweet|document|passage|sentences?|snippet|draft|code|config|readme|prompt|"
    r"statement|"
    r"conversation|chat|profile|description|summary|answer|exercise|example|testimonial|resume|cv|abstract|diary entry|"
    r"following|this|below|phrase|caption|comment|ticket|report|speech|joke)"
)
_HANDED_OVER = re.compile(
    rf"\b(?:translat\w*|rewrite|re-write|proofread|proof-read|paraphrase|rephrase|summari[sz]e|polish|correct|fix|"
    rf"edit|improve|"
    rf"classify|analy[sz]e|explain|complete|continue|shorten|check|convert|parse|extract|transcribe|review|format|"
    rf"analyse|"
    rf"grammar|spell ?check|sentiment|say|says|read|reads|wrote|writes|said|reword|"
    rf"decode)\b[^.!?\n]{{0,80}}\b{_TEXT_NOUN}\b"
    rf"|\b(?:here is|here's|this is|these are|below is|i (?:got|received|found|have) (?:this|the following|"
    rf"an?))\b[^.!?\n]{{0,60}}\b{_TEXT_NOUN}\b"
    rf"|(?<!you )(?<!my )\b(?!this\b|below\b|following\b){_TEXT_NOUN}\b[^.!?\n]{{0,50}}:\s|\b(?:this"
    rf"|below|following)\s*:\s|^\s*(?:translate|summari[sz]e|proofread"
    rf"|paraphrase|rewrite|rephrase)\b|"
    rf"\b(?:for example|example|e\.g\.)\s*[:,]",
    re.IGNORECASE,
)
_WITH_COLON = re.compile(r":\s")
_SECRET = re.compile(
    r"\b(?:pass ?words?|pass ?codes?|pass ?phrases?|pin(?: (?:code|number))?|api[- _]?keys?|secret(?: key)?s?|"
    r"tokens?|private keys?|ssn|"
    r"social security|credit cards?|card number|debit card|cvv|cvc|iban|account number|seed phrase|recovery (?:code|"
    r"phrase)|2fa|otp|"
    r"passwort|kennwort|contraseña|mot de passe|passport number|security (?:code|question)|routing number|tax id|"
    r"bank details|login(?:s)? (?:is|are)|credentials?)\b"
    r"|\[redacted:",
    re.IGNORECASE,
)
_ABBREVIATED = re.compile(r"(?:^|\s)(?:St|Dr|Mr|Mrs|Ms|Prof|No|approx|vs|e\.g|i\.e|etc|Mt|Jr|Sr)\.$")


_PARTS = (
    r"you(?: be|(?:'ll|’ll| will) be| play|(?:'re|’re| are) playing) (?:an?|the|my) [\w -]{3,30}?"
    r"(?:[.,;:!–—-]+| and)\s*(?:and |so )?(?:i(?:['’]m| am|['’]ll be| will be| be| play)|me)\b|"
    r"(?:^|[.!?]\s+)(?:please )?be (?:my|the|an?) (?:[\w-]+ )?(?!(?:teacher|editor|tutor|mentor|coach)\b)"
    r"(?:\w+(?:er|or|ist|keeper|man|woman)|judge|king|queen|villain|date|crush)\b"
)
"""“You be the innkeeper. I'm Thorga”: who plays whom."""

_STAGE = re.compile(
    r"\b(?:back ?story|role ?play\w*|my character|20 questions|twenty questions|charades|d&d|dnd"
    r"|half-elf|npc|dungeon master|text adventure|"
    r"(?:answer|reply|respond|talk|speak|write)(?: to me| back)? (?:as|like) an? (?:\w+ )?(?:pirate|wizard|king|"
    r"queen|vampire|"
    r"robot|alien|knight|cowboy|viking|detective|butler|elf|dwarf|ghost)|"
    r"(?:story|tale|poem|novel|monologue|diary|text|letter|chapter) (?:\w+ ){0,3}in (?:the )?first[- ]person|"
    rf"i am an animal|guess (?:who|what) i am|let'?s play|pretend (?:to be|you|i|that)|in character|{_PARTS}"
    r"|interview me as|(?:let'?s|let us) practi[sc]e|you(?:'re| are) the (?:waiter|waitress|customer|guest|patient|"
    r"interviewer|recruiter|shop assistant|cashier|receptionist|police officer)\b"
    r"|act as|persona|dating profile|made-up person|fictional)\b",
    re.IGNORECASE,
)


def sets_a_stage(turn: Memory) -> bool:
    """Whether a game or an invented person begins, so that the turns after it may be spoken by somebody else."""
    return turn.trust is Trust.USER and _STAGE.search(mask(turn.content[:_MOST_CHARACTERS])) is not None


_SARCASTIC = re.compile(
    r"\W*(?:oh,? (?:sure|great|joy|yeah|yes|wonderful|fantastic|perfect)\b|yeah,? right|as if\b|because (?:clearly|"
    r"obviously)|"
    r"(?:sure|right|yeah|yes|ok|okay|of course),? and (?:I am|I'm|pigs|my (?:cat|dog|grandma))\b|(?:.{0,20}\b)?I(?: "
    r"a|')m (?:the )?"
    r"(?:(?:queen|king|emperor|empress|tsar) of|pope\b|easter bunny|santa\b|tooth fairy)|"
    r"sure,? because|wow,? (?:thanks|great)|just what I (?:needed|wanted))",
    re.IGNORECASE,
)
_ADMITS = re.compile(
    r"\b(?:typo|mistake|mistaken|misspoke|mistyped|misremembered|correction|oops|whoops|my bad|(?:need|have|want|"
    r"like) to "
    r"(?:correct|update|fix)|must correct|got (?:that|it|the \w+) wrong|mixed (?:that|it|them|up)|was wrong|quick "
    r"update|"
    r"slight (?:change|correction)|change of plans?|small (?:change|update|correction)|wait|hold on|scratch that|"
    r"strike "
    r"that)\b",
    re.IGNORECASE,
)
_SHORT = 90
"""Characters up to which a sentence that admits a mistake only leads to the next one, which says what is right."""


class Sentence(msgspec.Struct, frozen=True):
    """A sentence as a whole, and the clauses of it that may state something: none of a question."""

    whole: Clause
    clauses: tuple[Clause, ...]


def sentences_said(turn: Memory) -> Iterator[Sentence]:
    """The sentences in which the user may state something, in order; none of other roles."""
    if turn.trust is not Trust.USER or turn.metadata.get("role", "user") != "user":
        return
    admitted = False
    for sentence, evidence in _statements(turn):
        whole = whole_of(repaired(in_english(sentence)), evidence, turn.created_at)
        if whole is None or is_supposed(whole) or _SARCASTIC.match(whole.text):
            continue
        clauses = tuple(clauses_of(whole)) if not is_asked(whole) else _beside_question(whole)
        if not clauses and whole.text.endswith("?"):
            clauses = _granted(whole)
        if admitted:
            clauses = tuple(msgspec.structs.replace(one, is_correction=True) for one in clauses)
        admitted = len(sentence) <= _SHORT and _ADMITS.search(whole.text) is not None
        yield Sentence(whole, clauses)


def _beside_question(whole: Clause) -> tuple[Clause, ...]:
    """What is told behind a semicolon ("remind me how to say sorry in Welsh; my mother-in-law is Welsh")."""
    _, _, told = whole.text.partition("; ")
    beside = msgspec.structs.replace(whole, text=told)
    if told and not told.endswith("?") and not is_asked(beside):
        return tuple(clauses_of(beside))
    return _granted(whole)


def _granted(whole: Clause) -> tuple[Clause, ...]:
    """What a question takes for granted."""
    return tuple(
        clause for text in presupposed(whole.text) for clause in clauses_of(msgspec.structs.replace(whole, text=text))
    )


def _statements(turn: Memory) -> Iterator[tuple[str, str]]:
    """Sentences that may state something, masked and as written."""
    original = turn.content[:_MOST_CHARACTERS]
    if "recalled-memory" in original.lower():
        original = strip_blocks(original)
    masked = mask(original)
    if _FICTION.search(masked) or _GAME.search(masked):
        return
    is_pasted = len(original) > LONG_TEXT
    for count, (begin, end) in enumerate(_spans(masked)):
        if count >= _MOST_SENTENCES:
            return
        sentence, evidence = masked[begin:end], original[begin:end]
        handed = _HANDED_OVER.search(sentence)
        if handed is not None and not _OWN_LABEL.match(sentence) and _hands_over(sentence, handed):
            return
        if len(sentence) > _LONGEST_SENTENCE or _SECRET.search(sentence):
            continue
        if not is_pasted or _FIRST_PERSON.search(sentence):
            yield sentence, evidence
        if _FICTION_BEGINS.search(sentence):
            return


def _hands_over(sentence: str, handed: re.Match[str]) -> bool:
    """Whether what follows in the message is a text handed over, not said: after a colon, or "translate this"."""
    ends_open = sentence.rstrip().endswith(":") or _WITH_COLON.search(sentence, handed.start()) is not None
    told = re.match(
        r"\s*(?:please |can you |could you |now )*(?:translat|summari|proofread|paraphras|rewrit|rephras)",
        sentence,
        re.IGNORECASE,
    )
    return ends_open or told is not None


def _spans(masked: str) -> Iterator[tuple[int, int]]:
    """Where the sentences are; one that an abbreviation cut is put together again."""
    place = 0
    open_at: int | None = None
    for sentence in sentences(masked):
        begin = masked.find(sentence, place)
        place = begin + len(sentence)
        begin = begin if open_at is None else open_at
        open_at = begin if _ABBREVIATED.search(sentence) and place - begin < _LONGEST_SENTENCE else None
        if open_at is None:
            yield begin, place
    if open_at is not None:
        yield open_at, place


_WRONG_AFTER = re.compile(r"(?<=\w)[.!](?= not (?:[\w$€£:-]+ ?){1,3}(?:[.!](?:\s|$)|\s*(?:$|\n)))", re.IGNORECASE)
"""“35! not 53”: what is wrong, said in a sentence of its own."""

_RIGHT_AFTER = re.compile(
    r"(?P<wrong>\b(?:not|isn[’']?t|wasn[’']?t|aren[’']?t) [\w' -]{2,30}?(?: at all)?)(?P<stop>[.!]{1,3})"
    r"(?= (?:it|that|they)(?:[’']?s| is|[’']?re| are) (?!not\b|n))",
    re.IGNORECASE,
)
"""“It's not cats! It's dust mites”: what is right, said in a sentence of its own."""

_OPENS_RIGHT = tuple(f"{stop} {word}" for stop in ".!" for word in ("it", "It", "that", "That", "they", "They"))


def mask(text: str) -> str:
    """The text with everything in it that is not the speaker's own prose masked, at the same length."""
    for pattern in _FOREIGN_TEXT:
        text = pattern.sub(_blank, text)
    text = _WRONG_AFTER.sub(",", _mask_speakers(_mask_letters(text)))
    if any(opening in text for opening in _OPENS_RIGHT):
        text = _RIGHT_AFTER.sub(lambda found: f"{found['wrong']}{',':<{len(found['stop'])}}", text)
    return _QUOTED.sub(_blank_quote, text)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", MASK, match.group())


def _blank_quote(match: re.Match[str]) -> str:
    """A quotation is masked unless it is a name or a title."""
    quoted = match.group()
    if len(quoted.split()) > 6 or _FIRST_PERSON.search(quoted):
        return MASK * len(quoted)
    return f" {quoted[1:-1]} "


def _mask_speakers(text: str) -> str:
    """Lines of a pasted chat ("Bob: I live in Rome")."""
    lines = [found for found in _SPEAKER.finditer(text) if found["who"].lower() not in _OWN_LABELS]
    pasted = len(lines) > 1 or any(found["who"].lower() in _CHAT_LABELS for found in lines)
    for found in lines if pasted else ():
        text = text[: found.start()] + _blank(found) + text[found.end() :]
    return text


def _mask_letters(text: str) -> str:
    """From the head of a pasted mail or letter on."""
    heads = list(_MAIL.finditer(text))
    start = heads[0].start() if len(heads) > 1 else None
    letter = _GREETED_LETTER.search(text)
    if letter is not None and (start is None or letter.start() < start):
        start = letter.start()
    return text if start is None else text[:start] + re.sub(r"[^\n]", MASK, text[start:])
