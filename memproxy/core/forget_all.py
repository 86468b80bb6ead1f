"""Recognises a user's order to forget everything known of them. Only a plain order counts: a whole sentence to the
assistant about the writer, with nothing beside it that makes it a quote, a question, a text to work on or a joke; not
"forget it". "Forget everything I told you" names nobody: it counts, also as a polite question, only where nothing else
is said. In doubt nothing is forgotten: the user can say it more plainly.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from memproxy.core.memory import noted_id, without
from memproxy.core.text import sentences

ALL_FORGOTTEN_BY = "all_forgotten_by"
"""Name in a turn's ``metadata``: the turn that ordered to forget everything, it too. Nothing is learned from it."""

_LONGEST = 600  # characters of a message; in a longer one such a sentence is more likely pasted than meant

_LEAD = (
    r"(?:(?:please|ok(?:ay)?|now|so|just|hey|hi|also|and|then|i(?:'d| would) like you to|i (?:want|need) you to|"
    r"you (?:must|should|have to|need to)|go ahead and)[,!]? )*"
)
_TAIL = (
    r"(?:,? (?:please|now|right now|right away|immediately|at once|for good|forever|permanently|completely|entirely|"
    r"thanks|thank you|ok(?:ay)?|from (?:your )?memory|and (?:let's |let us |we )?start (?:over|fresh|afresh|anew|"
    r"again|from scratch)))*"
)
_KNOWN = (
    r"(?:you(?:'ve| have| ever)? (?:know|learn(?:ed|t)|remember(?:ed)?|stored|saved|noted|kept|have|got|collected)"
    r"(?: (?:stored|saved|on file|noted))?|i(?:'ve| have)? (?:ever )?(?:told you|said(?: to you)?|shared(?: with you)?|"
    r"mentioned(?: to you)?))(?: so far| until now)?"
)
_THINGS = r"(?:of (?:it|that)|(?:of )?the (?:things|information|info|data|facts|memories)|memories|information|data)"
_ENGLISH = (
    rf"(?:forget|delete|erase|wipe|remove|clear|purge) (?:absolutely )?(?:"
    rf"(?:everything|all(?: {_THINGS})?)(?: that| which)? {_KNOWN} (?:about|on|of) (?:me|myself)"
    rf"|(?:everything|all(?: {_THINGS})) (?:about|on|of) (?:me|myself)"
    rf"|everything i(?:'ve| have)? ever (?:told you|said to you|shared with you)"
    rf"|everything i(?:'ve| have) (?:told|shared with) you(?: so far| until now)?"
    rf"|what(?:ever)? you(?:'ve| have)? (?:know|learn(?:ed|t)|remember(?:ed)?|stored|saved) (?:about|of) (?:me|myself)"
    rf"|all (?:there is )?about me"
    rf"|all (?:of )?my (?:saved |stored )?memories"
    rf"|(?:all (?:of )?)?your (?:saved |stored )?memor(?:y|ies) (?:of|about|on) me)"
)
_GERMAN_LEAD = r"(?:(?:bitte|ok(?:ay)?|so|jetzt|und|also|ich m(?:[öo]|oe)chte,? dass du)[,!]? )*"
_GERMAN_TAIL = r"(?:,? (?:bitte|jetzt|sofort|endg(?:[üu]|ue)ltig|danke|komplett|vollst(?:[äa]|ae)ndig))*"
_GERMAN = (
    r"(?:(?:vergiss|vergessen sie|l(?:[öo]|oe)sche?|l(?:[öo]|oe)schen sie|entfernen?(?: sie)?)(?: bitte)? (?:"
    r"alles,? was (?:du|sie)(?: je| jemals)? (?:(?:(?:[üu]|ue)ber|von) mich|(?:(?:[üu]|ue)ber|von) mir) "
    r"(?:wei(?:ß|ss)t|wissen|gespeichert hast|gespeichert haben|gelernt hast|hast)"
    r"|alles (?:[üu]|ue)ber mich"
    r"|alles,? was ich dir (?:(?:je|jemals) (?:erz(?:[äa]|ae)hlt|gesagt)|(?:bisher )?erz(?:[äa]|ae)hlt) habe"
    r"|alle (?:meine |deine )?erinnerungen (?:an|(?:[üu]|ue)ber) mich|alle meine erinnerungen))"
)
_SPANISH_LEAD = r"(?:(?:por favor|ok|ahora|y|quiero que)[,!]? )*"
_SPANISH_TAIL = r"(?:,? (?:por favor|ahora|ahora mismo|ya|para siempre|gracias))*"
_SPANISH = (
    r"(?:olvida|olvide|olvides|borra|borre|borres|elimina|elimine) (?:por favor )?(?:"
    r"todo lo que (?:sabes|sepas|sabe|has aprendido|has guardado|tienes guardado|recuerdas|te he contado) "
    r"(?:de|sobre|acerca de) m[íi]|todo sobre m[íi]|tod[oa]s (?:mis|tus) (?:recuerdos|memorias)"
    r"(?: (?:de|sobre) m[íi])?)"
)
_FRENCH_LEAD = r"(?:(?:s'il te pla[îi]t|s'il vous pla[îi]t|ok|maintenant|et)[,!]? )*"
_FRENCH_TAIL = r"(?:,? (?:s'il te pla[îi]t|s'il vous pla[îi]t|maintenant|tout de suite|d[ée]finitivement|merci))*"
_FRENCH = (
    r"(?:oublie|oubliez|efface|effacez|supprime|supprimez) (?:tout ce que (?:tu (?:sais|as appris|as retenu|"
    r"as enregistr[ée])|vous (?:savez|avez appris|avez retenu|avez enregistr[ée])|je t'ai dit) "
    r"(?:sur|de|[àa] propos de) moi|tout (?:sur|[àa] propos de) moi|tous (?:mes|tes) souvenirs(?: (?:de|sur) moi)?)"
)
_ORDER = re.compile(
    "|".join(
        (
            f"(?:{_LEAD}{_ENGLISH}{_TAIL})",
            f"(?:{_GERMAN_LEAD}{_GERMAN}{_GERMAN_TAIL})",
            f"(?:{_SPANISH_LEAD}{_SPANISH}{_SPANISH_TAIL})",
            f"(?:{_FRENCH_LEAD}{_FRENCH}{_FRENCH_TAIL})",
        )
    ),
    re.IGNORECASE,
)
_SO_FAR = r"(?: so far| until now| up to now)"
_TOLD = (
    r"(?:forget|delete|erase|wipe|remove|clear|purge) (?:absolutely )?(?:everything|all(?: (?:of )?the things)?)"
    r"(?: that| which)? (?:"
    r"i(?:'ve| have)? (?:ever |already )?(?:told|shared with) you"
    r"|i(?:'ve| have) (?:ever |already )?said(?: to you)?|i said to you"
    rf"|i said(?={_SO_FAR}))(?:{_SO_FAR})?"
)
_TOLD_ELSEWHERE = (
    rf"(?:{_GERMAN_LEAD}(?:vergiss|l(?:[öo]|oe)sche?)(?: bitte)? alles,? was ich dir (?:bisher )?"
    rf"(?:erz(?:[äa]|ae)hlt|gesagt) habe{_GERMAN_TAIL})"
    rf"|(?:{_SPANISH_LEAD}(?:olvida|borra|elimina) todo lo que te (?:he (?:dicho|contado)|dije|cont[ée])"
    rf"{_SPANISH_TAIL})"
    rf"|(?:{_FRENCH_LEAD}(?:oublie|efface|supprime) tout ce que je t'ai (?:dit|racont[ée]){_FRENCH_TAIL})"
)
_POLITELY = r"(?:(?:can|could|would|will) you (?:(?:please|kindly|just) )*(?P<asked>))?"
_ORDER_ALONE = re.compile(f"{_LEAD}{_POLITELY}{_TOLD}{_TAIL}|{_TOLD_ELSEWHERE}", re.IGNORECASE)
"""What was told, with nobody named: an order where nothing but `_BESIDE` is said."""

_BESIDE = re.compile(
    r"(?:(?:please|ok(?:ay)?|thanks|thank you|thx|hi|hello|hey|sorry|bye|(?:(?:and|now) )?(?:let(?:'s| us| me) )?start "
    r"(?:over|fresh|afresh|anew|again|from scratch)|bitte|danke|hallo|por favor|gracias|hola|merci|s'il te pla[îi]t|"
    r"bonjour)[ ,]*)+",
    re.IGNORECASE,
)
_CUE = re.compile(
    r"forget|delete|erase|wipe|remove|clear|purge|vergiss|vergessen|l(?:[öo]|oe)sch|entfern|olvid|borr|elimin|oubli|effac|"
    r"supprim",
    re.IGNORECASE,
)
"""Words without which no order is looked for: most messages are seen to hold none by one search."""

_NOT_MEANT = re.compile(
    r":\s*$|\b(?:translat\w+|rephras\w+|paraphras\w+|proofread\w*|rewrit\w+|write|wrote|compose|draft|says?|said|saying|"
    r"prompts?|lyrics?|lines?|quot\w+|sentences?|phrases?|examples?|e-?mails?|letters?|stor(?:y|ies)|poems?|jokes?|"
    r"pretend|imagine|suppose|if|hypothetical\w*|kidding|joking|jk|never ?mind|not really|just testing|titles?|"
    r"(?:[üu]|ue)bersetz\w*|schreib\w*|sag(?:t|te)?|wenn|traduc\w*|traduis\w*|escrib\w+|dice|dijo|si|[ée]cris\w*|dit|phrase)\b",
    re.IGNORECASE,
)
"""What stands beside the order where it is a text to work on, somebody else's words, or a joke."""

_QUOTED = re.compile(r"\"[^\"]*\"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|‹[^‹›]*›|(?<!\w)'[^'\n]{8,}'(?!\w)")
_MARKS = str.maketrans({"’": "'", "‘": "'"})


def order_in(text: str) -> str | None:
    """A user's last sentence, quotes aside, that orders to forget everything about its writer; None without one."""
    if len(text) > _LONGEST or _CUE.search(text) is None:
        return None
    parts = sentences(_QUOTED.sub("…", text))
    if orders := [sentence for sentence in parts if "?" not in sentence and _ORDER.fullmatch(_plain(sentence))]:
        rest = [sentence for sentence in parts if sentence not in orders]
        return None if any(_NOT_MEANT.search(sentence) for sentence in rest) else orders[-1]
    matches = [(sentence, _ORDER_ALONE.fullmatch(_plain(sentence))) for sentence in parts]
    orders = [sentence for sentence, match in matches if match and ("?" not in sentence or match["asked"] is not None)]
    beside = [sentence for sentence in parts if sentence not in orders]
    return orders[-1] if orders and all(_BESIDE.fullmatch(_plain(sentence)) for sentence in beside) else None


def _plain(sentence: str) -> str:
    return " ".join(sentence.translate(_MARKS).split()).strip(" .!?,;-–—")


def is_all_forgotten(metadata: Mapping[str, Any]) -> bool:
    """Whether a turn falls under an order to forget everything."""
    return ALL_FORGOTTEN_BY in metadata


def after_forgetting(metadata: Mapping[str, Any], undone: Iterable[str]) -> dict[str, Any]:
    """The metadata of a turn without an order of one of these turns, which are undone."""
    is_undone = noted_id(metadata, ALL_FORGOTTEN_BY) in set(undone)
    return without(metadata, ALL_FORGOTTEN_BY) if is_undone else dict(metadata)
