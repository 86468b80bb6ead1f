"""What a user must not eat, take or do: told once, it counts in every advice on that matter, whatever its words.

"Suggest a Thai dish" and "I carry an EpiPen" share no word, and their vectors are far apart; left out, it does harm.
Read by its words in English, German, Spanish, French and Chinese.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.recall.asking import BEGINS, CHINESE, AnyCase

FOOD, MEDICINE, ACTIVITY = "food", "medicine", "activity"
"""The fields of advice; the everyday matters of `recall.matters` are what a user asks of himself."""

SEARCHED: Mapping[str, str] = MappingProxyType(
    {
        FOOD: "allergic allergy intolerant intolerance coeliac celiac gluten lactose vegan vegetarian diabetic diabetes"
        " pregnant eat diet allergisch vegetarisch alérgico celíaca intolérant allergique végétarien",
        MEDICINE: "allergic allergy pregnant asthma diabetic tolerate medication allergisch alérgico allergique",
        ACTIVITY: "injury injured knee back surgery physio doctor pregnant asthma verletzt lesión blessure",
    }
)
"""What is searched for beside the query, by what its advice is about."""

MOST = 4
"""So many of them are lifted at most, those that match the query best."""

_EVERYWHERE = r"pregnan\w*|schwanger|embarazada|enceinte|怀孕|孕妇"
_ALLERGIC = (
    r"\ballerg\w*|\bal[eé]rgi\w*|过敏|\bepi-?pen\b|\bintoleran\w*|unverträglich\w*|\bintoléran\w*|不耐受"
    r"|\b(?:a|bad) reaction to\b|\bune réaction (?:à|aux?)\b"
)
_ASKS_ALLERGY = AnyCase(_ALLERGIC, having=("allerg", "alerg", "pen", "intoleran", "reaction to"))
_ILL = r"\bdiabet\w*|\bdiab[eé]t\w*|糖尿病|高血压|\bblood pressure\b|\bbluthochdruck\b|\bhipertens\w*|\bhypertendu\w*"
_NOT_BORNE = (
    r"\b(?:gives?|gave|makes?|made|brings?) me (?!a\b|an\b|happy|laugh|smile|feel good)\w+|\bsets? (?:it|them"
    r"|me) off\b"
    r"|\btriggers?\b|\bside effects?\b|\b(?:can't|cannot|don't|couldn't) tolerate\b|\bupsets? my\b|\bnever again\b"
    r"|\bvertrag\w*\b[^.!?]{0,40}\bnicht|\bnebenwirkung\w*|\bme (?:sienta|sientan|cae|caen) (?:muy )?mal\b"
    r"|\bne support\w* pas\b|\beffets secondaires\b|\bmir\b[^.!?]{0,30}\b(?:schlecht|übel)\b|副作用|吃了就|受不了"
)
_TOLD: Mapping[str, AnyCase] = MappingProxyType(
    {
        FOOD: AnyCase(
            rf"{_EVERYWHERE}|{_ALLERGIC}|{_ILL}|{_NOT_BORNE}"
            r"|\bc(?:o|œ)?eliac\w*|\bcelíac\w*|\bzöliakie|\bcœliaque|\bcoeliaque|\b(?:gluten|lactose|sugar"
            r"|dairy)[ -]?free\b"
            r"|\blaktose\w*|\bvegan\w*|\bvegetari\w*|\bpescatarian\w*|\bvégéta[rl]i\w*|\bvégan\w*|\bhalal\b"
            r"|\bkosher\b|\bketo\b"
            r"|\blow[ -](?:carb|fodmap|sodium|salt)\b|\bcholesterol\b|\bgout\b|\breflux\b|素食|吃素|清真|忌口|不吃"
            r"|不能吃|不喝"
            r"|\b(?:can't|cannot|can not|don't|do not|mustn't|not allowed to|never) (?:\w+ )?(?:eat|drink|digest"
            r"|swallow)\b"
            r"|\bno (?:\w+ )?(?:eggs?|meat|pork|fish|nuts|peanuts|dairy|milk|sugar|alcohol|gluten|wheat|shellfish"
            r"|mushrooms)\b"
            r"|\b(?:can't|cannot) stand (?:eggs|meat|fish|cheese|mushrooms|onions|garlic|tomatoes|olives|coriander)\b"
            r"|\b(?:esse|trinke) (?:\w+ )?kein\w*|\bdarf (?:\w+ )?(?:kein\w*|nicht)\b[^.!?]{0,30}\b(?:essen"
            r"|trinken)\b"
            r"|\bno (?:como|puedo comer|bebo|puedo beber|pruebo)\b|\bne (?:mange|bois)\b|\bne peux pas manger\b",
        ),
        MEDICINE: AnyCase(
            rf"{_EVERYWHERE}|{_ALLERGIC}|{_ILL}|{_NOT_BORNE}|\basthma\w*|\bblood thinners?\b|\bblutverdünner"
            r"|\b(?:kidney|liver|heart) (?:disease|failure|condition|problems?)\b|\bherz(?:krank|fehler)\w*|哮喘"
            r"|胃出血",
        ),
        ACTIVITY: AnyCase(
            rf"{_EVERYWHERE}|\basthma\w*|哮喘|\binjur\w*|\btorn\b|\btear\b|\btweaked\b|\bsprain\w*|\bfractur\w*"
            rf"|\bhernia\w*"
            r"|\b(?:broke|broken)\b[^.!?]{0,25}\b(?:arm|leg|wrist|ankle|foot|collarbone|rib|ribs|toe)\b"
            r"|\bslipped disc\b"
            r"|\bmeniscus\b|\bphysio\w*|\bsurgery\b|\bheart condition\b|\bbad (?:knee|back|hip|shoulder)s?\b"
            r"|\bverletz\w*|\bgerissen\b|\bgebrochen\b|\bbandscheibe\w*|\bmeniskus\b|\boperiert\b|\blesi[oó]n\w*"
            r"|\bmenisco\b"
            r"|\boperaron\b|\bblessur\w*|\bblessé\w*|\bentorse\b|\bménisque\b|\bhernie\b|\bopéré\w*|受伤|半月板"
            r"|扭伤|骨折|腰椎",
        ),
    }
)

_FIELD: Mapping[str, AnyCase] = MappingProxyType(
    {
        FOOD: AnyCase(
            r"\b(?:eat|eating|cook|cooking|bake|dinners?|lunch(?:es)?|breakfasts?|brunch|meals?|dish(?:es)?"
            r"|recipes?|snacks?"
            r"|desserts?|foods?|restaurants?|menu|cheese|soups?|platter|bbq|barbecue|smoothies?|cake|groceries"
            r"|takeaway"
            r"|essen|kochen|backen|abendessen|mittagessen|frühstück|gericht|rezepte?|nachtisch|snack"
            r"|comer|cenar|cocinar|desayunar|almorzar|cena|comida|desayuno|almuerzo|receta|postre|plato|restaurante"
            r"|manger|cuisiner|dîner|déjeuner|repas|plat|recette|goûter|apéro)\b|吃|菜|饭|餐|早点|零食|甜点",
        ),
        MEDICINE: AnyCase(
            r"\b(?:medications?|medicines?|painkillers?|pills?|tablets?|headaches?|migraines?|pain|fever|hay fever"
            r"|remed(?:y|ies)"
            r"|asleep|sleep|supplements?|kopfschmerz\w*|medikamente?|schmerzmittel|fieber|einschlafen|dolor"
            r"|medicina|pastillas?"
            r"|fiebre|dormir|douleur|médicaments?|fièvre|mal de tête|m'endormir)\b|药|头疼|头痛|发烧|失眠",
        ),
        ACTIVITY: AnyCase(
            r"\b(?:workouts?|exercises?|leg day|training|gym|stretch(?:es|ing)?|yoga|sports?|jog|jogging"
            r"|running plan|hikes?"
            r"|übungen|sport|trainingsplan|ejercicios?|deporte|entrenamiento|rutina|exercices?|entraînement)\b|运动"
            r"|锻炼|健身",
        ),
    }
)

_ADVICE = AnyCase(
    rf"{BEGINS}(?:"
    r"\b(?:recommend\w*|suggest\w*|advise|ideas?|tips?|options|inspiration|(?:quick|easy|nice|good"
    r"|healthy) (?:\w+ ){0,3}"
    r"(?:recipe|dinner|lunch|breakfast|snack|dessert)"
    r"|(?:what|which|where|how) (?:\w+ )?(?:can|could|should|shall|may|might|to) (?!you\b|they\b|he\b"
    r"|she\b|people\b)"
    r"|(?:can|could|should|may|shall) (?:i|we)\b|(?:plan|find|pick|choose|design|make|give|write) (?:me "
    r"|us )?(?:an?|some|my|the)\b"
    r"|what's (?:good|for)|help (?:me|us)"
    r"|was (?:kann|könnte|soll|sollte|können|sollen) (?:ich|wir)|ideen?|vorschlag|vorschläge|empfiehl|empfehl\w*"
    r"|tipps?"
    r"|qu[eé] (?:puedo|podr[ií]a|podemos|deber[ií]a|hago|ceno|cocino|preparo|me pongo)|recomi[eé]nda\w*|recomend\w*"
    r"|sugi?[eé]r\w*"
    r"|que (?:puis-je|pourrais-je)|(?:qu'est-ce que |quoi |que )(?:je|on) (?:peux|peut|pourrais|pourrait|mange"
    r"|cuisine)|idées?"
    r"|conseill\w*|recommand\w*|propos\w*|suggèr\w*)\b|推荐|建议|吃什么|喝什么|做什么|吃点|怎么办|什么好)",
)
_ABOUT = AnyCase(
    r"\bmedical (?:conditions?|history)\b|\bhealth (?:issues|problems|conditions?)\b|\b(?:could|can|would"
    r"|might) kill me\b"
    r"|\b(?:what|which|anything|something|things|foods?)\b[^.?!]{0,30}"
    r"\b(?:can't|cannot|can not|mustn't|must not|shouldn't|should not|not (?:allowed|supposed) to)"
    r"(?: \w+){0,3} (?:eat|drink|consume|tolerate|stomach)\b"
    r"|\b(?:foods?|dish(?:es)?|ingredients|drinks|medicines?|medications?|drugs)\b(?: \w+){0,4} avoid\b"
    r"|\bavoid (?:eating|drinking)\b"
    r"|\bvertrage\b"
    r"|\b(?:was|welche\w*)\b[^.?!]{0,30}\b(?:darf|kann|sollte)(?: \w+){1,2} nicht(?: \w+)? (?:essen|trinken)\b"
    r"|\bqué\b[^.?!]{0,20}\bno (?:puedo|podemos|puede|debo|debe) (?:comer|beber|tomar)\b"
    r"|\bqu(?:e|oi|els?|elles?)?\b[^.?!]{0,30}"
    r"\bne (?:peux|peut|pouvons|dois|doit)(?:-\w+)? pas (?:manger|boire|prendre)\b"
    r"|不能吃|忌口",
    having=("medical", "health", "kill me", "not", "n't", "avoid", "vertrage", "nicht", "pas"),
)
_PAST = AnyCase(
    rf"{BEGINS}(?:"
    r"(?!^)\bwas\b|\b(?:did|were|had|last (?:night|week|time|month)|yesterday|when|gestern|ayer|hier|haben wir"
    r"|habe ich)\b"
    r"|昨天|上次|什么时候)",
)
_TECHNIQUE = AnyCase(
    rf"{BEGINS}(?:"
    r"\bhow (?:long|many|much)\b|\bnutrition\w*|\bcalories\b|\btemperature\b|\bswap\b|\bsubstitut\w*"
    r"|\bin the recipe\b"
    r"|\binstead of\b|\bwie (?:lange|viel\w*)\b|\bcu[aá]nt\w+|\bcombien\b|多久|多少)",
)
"""How something is done depends on the thing, not on who asks."""

_KIN: Mapping[str, str] = MappingProxyType(
    {
        "mother": r"mum|mom|mommy|mummy|mother|mama|mutter|madre|mamá|mère|maman|妈妈|母亲|我妈",
        "father": r"dad|daddy|father|papa|vater|padre|papá|père|爸爸|父亲|我爸",
        "partner": r"wife|husband|ex(?:[- ]?(?:wife|husband|boyfriend|girlfriend|frau|mann|freundin?))?|partner"
        r"|boyfriend|girlfriend|fianc[eé]e?|spouse|freundin|mann|frau|novi[oa]"
        r"|marido|mujer"
        r"|mari|femme|copine|copain|老公|老婆|妻子|丈夫",
        "child": r"sons?|daughters?|kids?|child|children|baby|toddler|sohn|tochter|kind|kinder|hij[oa]s?|niñ[oa]s?"
        r"|fils|fille"
        r"|enfants?|女儿|儿子|孩子",
        "brother": r"brother|bruder|hermano|frère|哥哥|弟弟",
        "sister": r"sister|schwester|hermana|sœur|soeur|姐姐|妹妹",
        "old": r"grand(?:ma|mother|pa|father)|granny|oma|opa|abuel[oa]|grand-mère|grand-père|奶奶|爷爷|外婆|外公",
        "parents": r"parents|eltern|padres",
        "uncle": r"uncle",
        "aunt": r"aunt",
        "cousin": r"cousin",
        "nephew": r"nephew|niece",
        "friend": r"friends?|freunde?|amig[oa]s?|ami|amie|amis|朋友",
        "guest": r"guests?|gäste|invitad\w*|invités?|客人",
        "colleague": r"colleagues?|boss|kolleg\w*|collègues?|同事",
        "neighbour": r"neighbou?r",
        "flatmate": r"roommate|flatmate",
        "dog": r"dog",
        "cat": r"cat",
    }
)
NO_KIN = frozenset(_KIN) - {"mother", "father", "partner", "child", "brother", "sister", "old"}
"""Those of `whose` that are no near kin: friends, colleagues, a boss."""


def _kin_word(words: str) -> str:
    """A pattern of kin: Chinese words have no bounds, nor has what ends with any letters, if they are Chinese."""
    chinese = [word for word in words.split("|") if word >= "\u4e00"]
    unbounded = rf"(?:{words})(?<={CHINESE})" if r"\w*" in words else "|".join(chinese)
    return "|".join([rf"\b(?:{words})\b", *filter(None, [unbounded])])


_KIN_WORDS = "|".join(rf"(?P<{name}>{_kin_word(words)})" for name, words in _KIN.items())
_KIN_IN_ASCII = "|".join(rf"(?P<{name}>{words})" for name, words in _KIN.items())
_KIN_BEGINS = rf"(?:{BEGINS}|(?=kolleg))"
"""`BEGINS`; of the words one has any letters at its end, so Chinese ones too, and may then stand within a word."""

_KIN_WORD = AnyCase(rf"{_KIN_BEGINS}(?:{_KIN_WORDS})", plain=rf"\b(?=\w)(?:{_KIN_IN_ASCII})\b")
_ME = (
    r"i|i'm|im|i've|me|we|we're|we've|us|ich|mir|bin|wir|uns|yo|soy|he(?= \w+[aeiío](?:do|cho|to)\b)|nosotr[oa]s"
    r"|je|j'ai|suis|nous"
)
_THEM = r"she|he|they|her|him|sie|er|ella|él|elle|il"
_BEARER = AnyCase(
    rf"{_KIN_BEGINS}(?:"
    rf"(?P<me>\b(?:{_ME})\b"
    rf"|我(?!爸|妈|女|儿|哥|弟|姐|妹|老|奶|爷|朋|同)"
    rf"|咱)"
    rf"|(?P<them>\b(?:{_THEM})\b|[他她])"
    rf"|{_KIN_WORDS})",
    plain=rf"\b(?=\w)(?:(?P<me>{_ME})|(?P<them>{_THEM})|{_KIN_IN_ASCII})\b",
)
_NAMED = re.compile(
    r"\b(?=[A-Z])(?!(?:User|We|My|Our|It|That|This|There|The|Wir|Es|Das|Il|Elle)\b)[A-Z][a-zé]+(?:'s)?"
    r" (?:is|has|can't|cannot|doesn't|hates|gets?|wants?|turned|turns|moved|works?|lives?|takes|needs|ist|hat|es|tiene"
    r"|est|a|ne)\b"
)
_WITH = re.compile(r"\b(?:with|mit|con|avec)\s+(?:\w+\s+){0,2}$", re.IGNORECASE)
_SENTENCE_ENDS = ".!?;\n。！？；"
_READ = 600


def asked_for(query: str) -> frozenset[str]:
    """The fields (food, medicine, activity) that a query asks advice on, or the user's constraints in; none for what is
    past.
    """
    low = query[:_READ].replace("’", "'")
    about = _ABOUT.search(low) is not None
    if not about and (_PAST.search(low) or _TECHNIQUE.search(low)):
        return frozenset()
    asks = about or _ADVICE.search(low) is not None
    found = {name for name, words in _FIELD.items() if asks and words.search(low)}
    if about or (low.rstrip().endswith(("?", "？")) and _ASKS_ALLERGY.search(low)):
        found |= {FOOD, MEDICINE} if not found else set()
    return frozenset(found)


def asks_advice(low: str) -> bool:
    """Whether a query (in lower case) asks for an idea, a plan or a recommendation, in any of the five languages. More
    asks for it here, where a constraint may matter, than by `core.topics.asks_advice`, by which preferences are lifted.
    """
    return _ADVICE.search(low) is not None


def asks_past(low: str) -> bool:
    """Whether a query (in lower case) asks for what was, and not for advice."""
    return _PAST.search(low) is not None


def whose(query: str) -> frozenset[str]:
    """Which kin a query is about; nobody: the asker, who is meant too where somebody is only with him."""
    found = (match for match in _KIN_WORD.finditer(query[:_READ]) if not _WITH.search(query[: match.start()]))
    return frozenset(match.lastgroup for match in found if match.lastgroup)


def constrains(memory: Memory, fields: frozenset[str], bearers: frozenset[str]) -> bool:
    """Whether a memory of the user's words tells what one of the ``bearers`` (none: the user) must avoid in one of
    these fields.
    """
    known = fields & _TOLD.keys()
    if memory.trust is not Trust.USER or memory.kind is Kind.EPISODIC or not known:
        return False
    text = memory.content[:_READ].replace("’", "'")
    return any(
        is_of(text, match.start(), match.end(), bearers) for field in known for match in _TOLD[field].finditer(text)
    )


def is_of(text: str, start: int, end: int, bearers: frozenset[str]) -> bool:
    """Whom what stands there is said of: the one that is named last before it in its sentence, or else within it; who
    does it with somebody says it of himself.
    """
    last, begin = "me", max(text.rfind(sign, 0, start) for sign in _SENTENCE_ENDS) + 1
    said_at = begin
    for match in _BEARER.finditer(text, begin, end):
        if match.lastgroup in _KIN and _WITH.search(text[begin : match.start()]):
            continue
        if match.start() > start and last != "me":
            break
        last, said_at = match.lastgroup or last, match.start()
    if bearers:
        return last in bearers or (last == "them" and bool(bearers & whose(text)))
    if last != "me" or text[said_at:start].islower():  # a name has a capital
        return last == "me"
    named = _NAMED.search(text, said_at)
    return named is None or named.start() >= start
