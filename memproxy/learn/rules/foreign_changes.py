"""What is taken back or put right in German, Spanish and French, said in English, so that the rules for that read it.

Whatever these languages can state here (`foreign`) they can also take back: a language in which facts are learned and
never corrected fills memory with what is out of date.
"""

import re

_PLACE = r"(?P<x>[A-ZÄÖÜ][\w'’-]+(?: [A-ZÄÖÜ][\w'’-]+)?)"
_THING = r"(?:la |le |les |el |los |las |l'|die |den |das |der |de |du |des )?(?P<x>[\w'’-]+(?: [\w'’-]+)?)"
_PETS = {
    **dict.fromkeys(("hund", "hündin", "perro", "perra", "chien", "chienne"), "dog"),
    **dict.fromkeys(("katze", "kater", "gato", "gata", "chat", "chatte"), "cat"),
}
_PET = rf"(?P<pet>{'|'.join(_PETS)})"
_MINE = r"(?:mein|meine|unser|unsere|mi|nuestro|nuestra|mon|ma|notre)"
_FORMS = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (rf"\b(?:ich )?(?:wohne|lebe) nicht mehr in {_PLACE}", "I no longer live in {x}"),
        (rf"\bya no vivo en {_PLACE}", "I no longer live in {x}"),
        (rf"\bje (?:n'habite|ne vis) plus (?:à|en|au) {_PLACE}", "I no longer live in {x}"),
        (rf"\bich bin nicht (?:mehr )?allergisch gegen {_THING}", "I am no longer allergic to {x}"),
        (rf"\b(?:ya )?no soy (?:ya )?alérgic[oa] a {_THING}", "I am no longer allergic to {x}"),
        (rf"\bje ne suis (?:plus|pas) allergique (?:à|aux|au) {_THING}", "I am no longer allergic to {x}"),
        (r"\bich mag keine?n? (?P<x>[\w-]+) mehr\b", "I no longer like {x}"),
        (r"\bich (?:mag|liebe) (?:die |den |das )?(?P<x>[\w-]+) nicht mehr\b", "I no longer like {x}"),
        (rf"\bya no me gustan? {_THING}", "I no longer like {x}"),
        (rf"\bje n'(?:aime|adore) plus {_THING}", "I no longer like {x}"),
        (rf"\b(?:ich )?arbeite nicht mehr als {_THING}", "I no longer work as {x}"),
        (rf"\bya no trabajo (?:como|de) {_THING}", "I no longer work as {x}"),
        (rf"\bje ne travaille plus comme {_THING}", "I no longer work as {x}"),
        (rf"\bahora trabajo (?:como|de) {_THING}", "I work as {x} now"),
        (rf"\bich arbeite jetzt als {_THING}", "I work as {x} now"),
        (r"\bich hei(?:ß|ss)e nicht (?P<w>\w+),? sondern (?P<x>\w+)", "my name is {x}, not {w}"),
        (r"\bno me llamo (?P<w>\w+),? sino (?P<x>\w+)", "my name is {x}, not {w}"),
        (r"\bje ne m'appelle pas (?P<w>\w+),? mais (?P<x>\w+)", "my name is {x}, not {w}"),
        (rf"\b{_MINE} {_PET} (?:hei(?:ß|ss)t|se llama|s'appelle) (?P<x>\w+),? (?:nicht|no|pas) (?P<w>\w+)",
         "my {pet} is called {x}, not {w}"),
        (rf"\b{_MINE} {_PET} (?:ist (?:gestern |leider )?gestorben|ha muerto|murió|est morte?)\b", "my {pet} died"),
        (rf"\b(?:ich habe|wir haben) keine?n? {_PET} mehr\b", "I no longer have a {pet}"),
        (rf"\bya no tengo {_PET}\b", "I no longer have a {pet}"),
        (rf"\bje n'ai plus de {_PET}\b", "I no longer have a {pet}"),
        (rf"\bvergiss,? dass ich in {_PLACE} (?:wohne|lebe)", "forget that I live in {x}"),
        (rf"\bolvida que vivo en {_PLACE}", "forget that I live in {x}"),
        (rf"\boublie que j'habite (?:à|en|au) {_PLACE}", "forget that I live in {x}"),
        (r"\bnicht (?P<w>[\wÄÖÜ]+),? sondern (?P<x>\w+)", "not {w} but {x}"),
        (r"\bno (?P<w>[A-Z]\w+),? sino (?P<x>\w+)", "not {w} but {x}"),
        (r"\bpas (?P<w>[A-Z]\w+),? mais (?P<x>\w+)", "not {w} but {x}"),
        (r"^(?:nein|doch|sorry|entschuldigung)[ ,]+(?:ich meinte |ich meine )?(?=ich |in |[A-ZÄÖÜ]\w+[.!]?$)", "no, "),
        (r"^(?:perdón|perdona)[ ,]+", "no, "),
        (r"\b(?:ich meinte|quise decir|quería decir|je voulais dire) ", "I meant "),
    )
)  # fmt: skip
_MARKS = re.compile(
    r"\b(?:nicht|keine?n?|vergiss|nein|doch|jetzt|gestorben|ich mein\w*|no|ya|ahora|sino|olvida|murió|ha muerto|quise|"
    r"quería|perdona?|perdón|plus|pas|oublie|morte?|voulais|entschuldigung)\b",
    re.IGNORECASE,
)
_FOREIGN = re.compile(
    r"\b(?:ich|mein|meine|unser|unsere|wir|sondern|wohne|vivo|tengo|soy|gustan?|trabajo|mi|llamo|sino|olvida|quise|"
    r"quería|je|j'\w+|n'\w+|mon|ma|oublie|mais|nein|perdón)\b",
    re.IGNORECASE,
)


def in_english(sentence: str) -> str:
    """The sentence with what it takes back or puts right said in English; else as it is."""
    if _FOREIGN.search(sentence) is None or _MARKS.search(sentence) is None:
        return sentence
    for pattern, instead in _FORMS:
        match = pattern.search(sentence)
        if match is not None:
            said = {name: _PETS.get(text.lower(), text) for name, text in match.groupdict().items()}
            sentence = sentence[: match.start()] + instead.format_map(said) + sentence[match.end() :]
    return sentence
