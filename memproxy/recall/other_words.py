"""In which other words something may have been told than it is asked for: irregular forms ("bought" for "buy"), which
no stemmer knows, and words of one meaning or field ("puppy" for "dog"). English. For searches by words alone: vectors
see both by themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from memproxy.ports import LexicalEncoder, SparseVector

ALIKE_WEIGHT = 0.2
"""What a word of like meaning counts beside one of the query's own, or another form of one."""

MOST_TERMS = 40
"""A longer query (something pasted) has words enough."""

_FORMS = """
become became, begin began begun, bend bent, bite bit bitten, blow blew blown, break broke broken, bring brought,
build built, burn burnt, buy bought, catch caught, choose chose chosen, come came, deal dealt, dig dug, draw drew
drawn, dream dreamt, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed, feel felt,
fight fought, find found, fly flew flown, forget forgot forgotten, forgive forgave forgiven, freeze froze frozen, get
got gotten, give gave given, go went gone, grow grew grown, hang hung, hear heard, hide hid hidden, hold held, keep
kept, know knew known, lead led, learn learnt, leave left, lend lent, light lit, lose lost, make made, mean meant,
meet met, pay paid, ride rode ridden, ring rang rung, run ran, see saw seen, seek sought, sell sold, send sent, shake
shook shaken, shine shone, shoot shot, show shown, sing sang sung, sink sank sunk, sit sat, sleep slept, speak spoke
spoken, spend spent, spin spun, stand stood, steal stole stolen, stick stuck, strike struck, swim swam swum, swing
swung, take took taken, teach taught, tear tore torn, tell told, think thought, throw threw thrown, understand
understood, wake woke woken, wear wore worn, write wrote written, child children, man men, woman women, foot feet,
tooth teeth, mouse mice, wife wives, life lives, knife knives
"""

_ALIKE = """
kid child son daughter toddler baby, mom mother mum, dad father, parent mom dad mother father, sibling brother sister,
husband wife spouse partner married, boyfriend girlfriend partner dating, relationship dating boyfriend girlfriend
partner single married breakup, friend buddy pal mate, wedding married marriage marry engaged, divorce separated split
breakup, job work career profession occupation position employed, company firm employer office, boss manager
supervisor, colleague coworker teammate, salary wage pay income, business shop store startup company, school college
university class course degree study education, study learn course class education, teacher professor instructor
tutor, exam test quiz, student pupil classmate, buy purchase order shopping, gift present, money cash savings budget,
cost price expensive paid, car vehicle auto automobile drive, bike bicycle cycling, trip travel vacation holiday
journey visit tour, travel trip visit flight abroad, flight fly plane airport, hotel hostel stay, country abroad
nation, city town, home house apartment flat, move relocate, live reside, room bedroom kitchen, furniture sofa couch
chair table desk, movie film cinema, show series episode, book novel read story author, write author writer draft
script, music song band concert album, concert gig show festival tour, song music tune track, sing singer song,
instrument guitar piano violin drum, dance dancing dancer, game gaming play, tournament competition contest
championship match tourney, win victory first prize champion, lose defeat, prize award trophy medal, team club squad,
sport soccer football basketball tennis running, exercise workout gym fitness training, run jog marathon race, swim
swimming pool, hike trail trek mountain, camp camping tent campfire, nature outdoors park forest mountain hiking
camping, beach sea ocean coast, food meal dish eat cook, eat meal dinner lunch restaurant, cook bake recipe meal
kitchen, bake cake cookie, recipe cook bake dish, restaurant cafe diner eat, drink coffee tea beer wine, dessert cake
sweet cookie, meal dinner lunch breakfast, pet dog cat puppy kitten animal, dog puppy, cat kitten, garden yard plant
flower, paint painting art artwork canvas, draw drawing sketch, art artwork painting drawing sculpture pottery, photo
picture pic photography camera image, hobby interest pastime passion enjoy fun love, like love enjoy favorite fan
adore, dislike hate, afraid fear scared, happy glad excited thrilled joy, sad upset disappointed, angry mad annoyed,
stress stressed anxiety pressure, relax calm unwind peaceful rest, proud accomplished, worry worried anxious, support
help encourage assist motivate, advice tip suggestion recommend, inspire motivate inspiration, goal dream aim plan
wish, plan intend want, hope wish, decide choose decision, start begin launch open, finish complete done end, stop
quit end, create make build construct, repair fix restore, accident crash incident injury, injury hurt injured pain,
sick ill illness, doctor physician appointment hospital surgery clinic, health healthy medical, allergy allergic,
medicine medication pill, weight diet, party celebrate celebration birthday, event festival party conference,
volunteer charity donate fundraiser, community group neighborhood, group club team, church religion religious faith
spiritual, politics political, belief believe faith, talk chat discuss conversation, speech talk presentation, phone
mobile cell, computer laptop pc, internet online web website blog, app software program, clothes dress shirt wear
outfit, shoes sneakers boots, jewelry necklace ring bracelet, hair haircut, weather rain snow sunny, rain storm flood,
kind type sort, often every regularly, popular famous fame, big huge large, small little tiny, old vintage classic,
beautiful gorgeous lovely stunning, delicious tasty yummy, difficult hard tough challenging, challenge difficult
obstacle struggle, problem issue trouble, important special meaningful, memory remember, childhood kid child young,
grow raise, die death dead passed lost, birth born baby, language speak, attend join participate member, receive get
give, surprise surprised shocked, symbol symbolize stand represent mean meaning, publish release, perform performance
stage, work project, collect collection, adopt adoption, taste flavor
"""


class OtherWords:
    """The table of other words, by the terms of an encoder."""

    def __init__(self, lexical: LexicalEncoder) -> None:
        self._lexical = lexical
        self._forms = self._related_terms(_FORMS)
        self._alike = self._related_terms(_ALIKE)

    def encoded(self, text: str) -> SparseVector:
        """The query with the other forms of its words in full, and words of like meaning by `ALIKE_WEIGHT`."""
        query_terms = self._lexical.encode_query(text).indices
        if len(query_terms) > MOST_TERMS:
            return SparseVector(indices=list(query_terms), values=[1.0] * len(query_terms))
        forms = _related(query_terms, self._forms)
        alike = _related((*query_terms, *forms), self._alike)
        weights = dict.fromkeys((*alike, *_related(alike, self._forms)), ALIKE_WEIGHT)
        weights.update(dict.fromkeys((*forms, *query_terms), 1.0))
        return SparseVector(indices=list(weights), values=list(weights.values()))

    def _related_terms(self, groups: str) -> Mapping[int, tuple[int, ...]]:
        """Which terms stand in a group with each."""
        related: dict[int, dict[int, None]] = {}
        for group in groups.split(","):
            terms = [self._lexical.encode_query(word).indices for word in group.split()]
            together = dict.fromkeys(term for word_terms in terms for term in word_terms)
            for term in together:
                related.setdefault(term, {}).update(together)
        return MappingProxyType(
            {term: tuple(other for other in mates if other != term) for term, mates in related.items()}
        )


def _related(terms: Iterable[int], beside: Mapping[int, Sequence[int]]) -> list[int]:
    return [other for term in terms for other in beside.get(term, ())]
