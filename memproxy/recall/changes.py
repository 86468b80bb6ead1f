"""By which words a message tells of a change, that something is no more, or what is only planned; in English, German,
Spanish, French and Chinese.
"""

import re

from memproxy.core.late import LatePattern
from memproxy.core.text import GENERIC_WORDS, STOPWORDS, words
from memproxy.recall.asking import BEGINS

_VALUE = re.compile(r"\d")
_CLAUSE_ENDS = ",.;:!?()\n，。；：！？（）"
_BESIDE = 32
"""Characters around a name in which it may stand that what is named is no more."""

_NAME_LETTERS = 4
_NAME_SIGNS = 2
"""Chinese characters of a name."""

_CHINESE = re.compile("[\u4e00-\u9fff]+")
_TIMES = """
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays january february march april june july august september october november december morning mornings evening
    evenings afternoon night nights weekend weekends week weeks year years summer winter spring autumn minutes euros
    really little
"""
_NO_NAMES = STOPWORDS | GENERIC_WORDS | frozenset(_TIMES.split())

_CHANGE = LatePattern(
    rf"{BEGINS}(?:"
    r"\b(?:now|switched|switching|moved|moves|moving|changed|new|instead|no longer|not anymore|anymore|sold"
    r"|settled|quit"
    r"|left|stopped|broke up|divorced|finally|at last|actually|replaced|upgraded|cancelled|canceled|got rid"
    r"|returned|found"
    r"|died|passed away|back|already|over|done|became|got|ordered|bought|picked up|scrapped|gave up|given up|handed in"
    r"|finished|fell through|churned|dropped|postponed|rescheduled|pushed|extended|promoted|hired|migrated|rewrote"
    r"|from now on|on to|since|down to|up to|turned out|first (?:day|week|shift)"
    r"|jetzt|umgezogen|umzug|umgestiegen|gewechselt|neue?[mnrs]?|stattdessen|nicht mehr|verkauft|endlich"
    r"|inzwischen|doch"
    r"|gekündigt|aufgehört|angefangen|fange|verschoben|verlegt|verlängert|gekauft|geholt|befördert|seit|fertig"
    r"|ab sofort"
    r"|ahora|mud\w+|cambi\w+|nuev[oa]s?|ya no|vend[ií]\w*|por fin|al final|dej[eé]|dejado|ya est\w+"
    r"|compr(?:[éó]|amos|ado)"
    r"|adiós|cogido|contrat\w+|aplaz\w+|pospuest\w+|retras\w+|empec[ée]|empezado|termin[ée]|terminado|ascend\w+"
    r"|pasamos"
    r"|maintenant|déménag\w+|changé|nouve\w+|vendu|enfin|install\w+|finalement|quitté|trouvé|remplacé|acheté"
    r"|pris|repris"
    r"|reporté\w*|décalé\w*|avancé|prolongé\w*|passe (?:au|à)|passés? à|terminé|fini|désormais|commence|arrêté"
    r"|promue?)\b"
    r"|现在|搬|换|新|终于|不再|改|卖|已经|了|推迟|提前|离职|辞)",
    re.IGNORECASE,
)
_PLAN = LatePattern(
    rf"{BEGINS}(?:"
    r"\b(?:plan|planning|want|wants|would like|looking|thinking|until|till|currently|for now|at the moment|trying"
    r"|signed up"
    r"|going to|gonna|will|need to|considering|möchte|will|wollen|suche\w*|überlege\w*|bisher|noch"
    r"|quiero|queremos|mirando|buscando|pensando|hasta|cherche\w*|veux|voulons|voudrais|pense|jusqu\w*)\b"
    r"|打算|想|准备|目前|现在|找)",
    re.IGNORECASE,
)
_INSTEAD = LatePattern(
    rf"{BEGINS}(?:"
    r"\b(?:instead|switched (?:me )?(?:to|from)|changed (?:my|me|to|from)|replaced (?:by|with)|rather than"
    r"|stattdessen|anstelle|statt|umgestellt auf|gewechselt (?:zu|auf)|en vez de|en lugar de|cambié (?:de|a)"
    r"|me cambi\w+"
    r"|à la place|au lieu|remplacé\w* par|passée? à)\b"
    r"|改成|换成|改吃|换了|而不是)",
    re.IGNORECASE,
)
"""Says of itself that it takes the place of something."""

_ENDED = LatePattern(
    rf"{BEGINS}(?:"
    r"\b(?:left|leaves|leaving|quits?|stop(?:s|ped)?|fired|laid off|gone|over|sold|cancell?ed|gave up|giv(?:en"
    r"|ing) up|split"
    r"(?: up)?|broke(?:n)?(?: up)?|are done|died|passed away|closed|closes|shut|churned|fell through"
    r"|moved (?:out|away)|emigrated"
    r"|retire[sd]?|finished|dropped(?: out)?|got rid|returned|lost|stolen|scrapped|got discharged"
    r"|too (?:expensive|pricey|broad)"
    r"|is out|are out|done with|off|ended|expired|gave notice|killing me|let go"
    r"|weg|aufgehört|gekündigt|verkauft|ausgezogen|getrennt|gestorben|geklaut|gestohlen|geschlossen|rente"
    r"|vorbei|ausgebucht"
    r"|abgesagt|nicht mehr|kein\w* mehr|kaputt|raus"
    r"|dej[oéa]\w*|vend[ií]\w*|rob(?:aron|ado)|murió|cerr(?:ó|aron|ado)|rompi\w*|roto|termin(?:é|ó|ado)|ya no"
    r"|se (?:fue|va)"
    r"|jubil\w+|cancel\w+|adiós"
    r"|arrêt\w+|quitt\w+|vendu\w*|volée?s?|mort\w*|fermé\w*|finie?s?|parti\w*|rompu|retraite|annulé\w*|plus de"
    r"|adieu)\b"
    r"|卖|辞|离|分手|走了|去世|丢了|关门|倒闭|太难|退|取消|不.{0,3}了)",
    re.IGNORECASE,
)
"""Says of what it names that it is no more."""

_CURRENT = LatePattern(
    rf"{BEGINS}(?:"
    r"\b(?:now|right now|nowadays|these days|currently|at the moment|at present|still|jetzt|gerade|zurzeit|derzeit"
    r"|momentan|aktuell\w*|ahora|actualmente|ahora mismo|de momento|maintenant|actuellement|en ce moment)\b"
    r"|现在|目前|最近)",
    re.IGNORECASE,
)
"""Asks for what holds now, whatever the matter."""


def names(text: str) -> frozenset[str]:
    """What may be the name of something: the longer words, and pairs of Chinese characters."""
    found = {word.removesuffix("'s") for word in words(text) if len(word) >= _NAME_LETTERS}
    runs = _CHINESE.findall(text)
    pairs = {run[at : at + _NAME_SIGNS] for run in runs for at in range(len(run) - _NAME_SIGNS + 1)}
    return frozenset({word for word in found if not _CHINESE.search(word)} - _NO_NAMES | pairs)


def may_change(text: str, later: str) -> bool:
    """Whether what was said later may be what became of what was said before."""
    return _PLAN.search(text) is not None or replaces(text, later)


def replaces(text: str, later: str) -> bool:
    """Whether it tells of a change, or another value."""
    return tells_change(later) or (_VALUE.search(text) is not None and _VALUE.search(later) is not None)


def tells_change(text: str) -> bool:
    """Whether a text has a word of change."""
    return _CHANGE.search(text) is not None


def takes_a_place(text: str) -> bool:
    """Whether it says that it is instead of something."""
    return _INSTEAD.search(text) is not None


def is_ended(text: str, name: str) -> bool:
    """Whether a text says beside a name (in lower case) that what is named is no more."""
    low = text.lower()
    at = low.find(name)
    while at >= 0:
        before, after = low[max(0, at - _BESIDE) : at], low[at + len(name) : at + len(name) + _BESIDE]
        begin = max(before.rfind(sign) for sign in _CLAUSE_ENDS) + 1
        end = min((place for sign in _CLAUSE_ENDS if (place := after.find(sign)) >= 0), default=len(after))
        if _ENDED.search(f"{before[begin:]} {after[:end]}"):
            return True
        at = low.find(name, at + 1)
    return False


def asks_for_now(query: str) -> bool:
    """Whether somebody asks for what holds now."""
    return _CURRENT.search(query) is not None
