"""Text made plain, so that one pattern fits the many ways of writing the same: contractions, chat spelling, fillers."""

import re

from memproxy.learn.rules.words import KIN, PARENTS, PARTNERS

_SHORTENED = "budget|birthday|address|rent|deadline|salary|timezone|job"
_LASTING = (
    "an? |vegan|vegetarian|allergic|living|working|married|using|learning|playing|collecting|studying|based|"
    "self-employed|retired|off "
)
_CONTRACTIONS = tuple(
    (hints, re.compile(pattern, re.IGNORECASE), instead)
    for hints, pattern, instead in (
        (("`", "´", "’"), r"[’`´]", "'"),
        (
            ("ooo", "eee", "aaa", "yyy", "hhh", "uuu", "sss", "mmm"),
            (
                r"\b(so|no|ye|yes|ya|ok|oh|ah|hm|ugh|wai?t|hey|hi|ple?a?se|really?|very|love|hate|yay|omg|argh)"
                r"(?P<last>[aeosyhmtu])(?P=last)+\b"
            ),
            r"\1",
        ),
        (("sry", "soz"), r"\b(?:sry|soz)\b", "sorry"),
        (("thx",), r"\bthx\b", "thanks"),
        (("quitted",), r"\bquitted\b", "quit"),
        (("cos ",), r"\bcos (?=(?:I|i|I'm|im|we|my|our|it|she|he|the|they) )", "because "),
        (("appt",), r"\bappt\b", "appointment"),
        (("tmr",), r"\btmrw?\b", "tomorrow"),
        (("yr",), r"\byrs\b", "years"),
        (("ppl",), r"\bppl\b", "people"),
        (("w/o",), r"\bw/o ", "without "),
        (("i'm",), r"\bI'm\b", "I am"),
        (
            (" you d",),
            r"\b(?:I|we)(?:'d| would) (?:rather|prefer|like)(?: it)?(?: if)? you (?:didn't|did not|don't|do not) ",
            "do not ",
        ),
        (("im",), r"\bim(?= \w)", "I am"),
        (("w/",), r"\bw/ ?(?=\w)", "with "),
        (("pl",), r"\b(?:pls|plz)\b", "please"),
        ((" wk",), r"\b(a|per|every|each|last|this|next) wk\b", r"\1 week"),
        (("'s ",), r"\b([a-z]+)'s (?=(?:gone|been|got|become|moved|changed|increased|risen|dropped) )", r"\1 has "),
        (("guess who",), r"\bguess who(?:'s| is) (?=[\w ]{3,40}\bnow\b)", "I am "),
        (
            ("is a",),
            r"^((?:and |so |btw,? )?)(machine|laptop|phone|rig|computer|setup) is (?=an? \w)",
            r"\1my \2 is ",
        ),
        (
            ("would kill me", "will kill me"),
            r",? (?:my|our) [\w-]+ (?:would|will) kill me\b.*$",
            "",
        ),
        (
            ("eating",),
            r"\b((?:my|our) [\w-]+(?: (?-i:[A-Z])\w+)?) (?:has )?(?:just )?(?:started|begun|is back to) eating\b",
            r"\1 eats",
        ),
        ((" a m", " a dr"), r"\ba (?=(?-i:(?:Mr|Mrs|Ms|Miss|Dr)\.? [A-Z]))", ""),
        (("new ",), r"^new ([a-z]+)(?:'s| is) (?=(?:an? )?(?-i:[A-Z]))", r"my new \1 is "),
        (("'s called", "'s named"), r"^(the [\w-]+)'s (?=called |named )", r"\1 is "),
        (("both ",), r"^both (?=(?:my|our) parents\b)", ""),
        (("could eat",), r"\bI could eat ([\w ]{2,30}?) (?:every day|all day|for ever|forever)\b", r"I love \1"),
        (("fav",), r"^((?:and |but |also,? )*)(?=(?:favou?rite|fav|fave) [a-z]+(?: [a-z]+)? (?:is|are) )", r"\1my "),
        (
            (" here", " at home"),
            (
                r"^(an?|one|two|three|four|five|\d) ((?:[a-z]+ )?(?:cats?|dogs?|kids|children|sons?|daughters?|"
                r"rabbits|hamsters|horses|hens|boys|girls)) (?:here|at home|over here)(?=$|[,.:!])"
            ),
            r"I have \1 \2",
        ),
        (
            ("also", "both"),
            r"\b((?:my|our) (?:[\w'-]+ ){1,3}?(?:is|are|has|have)) (?:also|both)\b(?= (?!not\b))",
            r"\1",
        ),
        ((" only have ",), r"\b(I|we) only have (?=(?:one|two|three|four|five|six|\d+) )", r"\1 have "),
        ((":(", ":)", ":-", ";)", ":d", "<3", "^^", "xd"), r"\s*(?:[:;]-?[()DPp/|]+|<3|\^\^|\bxD\b)\s*$", ""),
        ((" on the scale",), r"^(\d[\d.,]*(?: ?(?:kg|kilos?|lbs|pounds))?) on the scales?\b.*$", r"I weigh \1 now"),
        (
            ("asthma", "diabetes", "epilepsy", "migraine", "eczema"),
            r"^(asthma|diabetes|epilepsy|migraines?|eczema) (?=since|for )",
            r"I have \1 ",
        ),
        (
            (" is at ", " is in "),
            (
                r"\b((?:my|our) (?:son|daughter|kid|child|boy|girl)(?: (?-i:[A-Z])\w+)?) is (?:at|in) "
                r"(?=(?:the |an? )?[\w ]{2,30}? school\b)"
            ),
            r"\1 goes to ",
        ),
        ((" in the morning",), r"\b(\d{1,2}(?:[:.]\d\d)?)(?: o'?clock)? in the morning\b", r"\1 am"),
        (
            (" in the afternoon", " in the evening"),
            r"\b(1[01]|[1-9](?:[:.]\d\d)?)(?: o'?clock)? in the (?:afternoon|evening)\b",
            r"\1 pm",
        ),
        ((" i mean",), r"^([^,.!?]{2,40}),? I (?:mean|meant)(?=[.!]|$)", r"I meant \1"),
        ((" it is",), r"^([\w' -]{2,25}) it is(?=[.!]|$)", r"make it \1"),
        ((" & ",), r" & (?=(?:I|i|we|my|our|he|she|they) )", " and "),
        (("w ",), r"\bw (?=(?:(?:an?|the|my|our|his|her) |aura\b|(?-i:[A-Z])))", "with "),
        (("esnt", "snt"), r"\b(?:dosnt|doesnt)\b", "does not"),
        (
            ("we",),
            r"\b(?:were|we're) (?=(?:a |an |foster|vegan|vegetarian|parents|from|based|renting|both)\b)",
            "we are ",
        ),
        (("w ",), r"\bw (?=(?:my|our|a|an|the|type)\b|[a-z]+ (?:\d|[a-z]+$))", "with "),
        (("n ",), r"\bn (?=(?:I|i|we|my|our|she|shes|he|hes|it|they|no|now|also)\b)", "and "),
        (("enjoy", "hate", "like", "love"), r"\b(love|like|hate|enjoy)(.{2,40}?) sm\b", r"\1\2"),
        ((" prefer",), r"\b(I|we) (?:much|far|vastly|greatly) prefer\b", r"\1 prefer"),
        (("bc", "coz", "cuz"), r"\b(?:cuz|coz|bc)\b", "because"),
        (("tho",), r"\b(?:tho)\b", "though"),
        (("rn",), r"\brn\b", "right now"),
        ((" bf",), r"\b(my|our) bf\b", r"\1 boyfriend"),
        (("day",), r"\b(my|our|'s) b-?day\b", r"\1 birthday"),
        (
            ("its",),
            (
                r"\bits(?= (?:not|actually|now|at|on|called|named|been|\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day|"
                r"january|february|march|april|may|june|july|august|september|october|november|december)\b| [$€£])"
            ),
            "it is",
        ),
        (("its ",), r"\bits (?=so\b|too\b|just\b|really\b|always\b)", "it is "),
        (
            (
                "boss",
                "boyfriend",
                "brother",
                "dad",
                "daughter",
                "friend",
                "girlfriend",
                "husband",
                "mom",
                "mum",
                "partner",
                "sister",
                "son",
            ),
            (
                r"\b(my|our) (son|daughter|sister|brother|husband|mum|mom|dad|friend|boss|partner|boyfriend|"
                r"girlfriend)s "
                r"(?=(?:teacher|school|class|birthday|house|flat|dog|cat|car|wedding|boss|friend|room|name|nursery|job|"
                r"team)s?\b)"
            ),
            r"\1 \2's ",
        ),
        (
            ("became", "become", "got promoted to", "was promoted to"),
            (
                rf"\b((?:my|our) "
                rf"(?:{'|'.join(sorted(map(re.escape, KIN | PARTNERS | PARENTS), key=len, reverse=True))})(?: "
                rf"(?-i:[A-Z])\w+)?) "
                r"(?:(?:has|just|recently|now|finally) )*(?:became|become|"
                r"got promoted to|was promoted to) (?=an? |the )"
            ),
            r"\1 is ",
        ),
        (("shes",), r"\bshes\b", "she is"),
        (("hes",), r"\bhes\b", "he is"),
        (("theyre",), r"\btheyre\b", "they are"),
        ((" gf",), r"\b(my|our) gf\b", r"\1 girlfriend"),
        (("hub", " dh"), r"\b(my|our) (?:hubby|hubs|dh)\b", r"\1 husband"),
        (("missus", "mrs", "wifey"), r"\b(my|our) (?:wifey|missus|mrs)\b", r"\1 wife"),
        ((" kiddo",), r"\b(my|our) kiddos?\b", r"\1 kids"),
        (("gotta",), r"\bgotta\b", "have to"),
        (("nt",), r"\b(have|has|had|did|does|is|are|was|were|could|would|should)nt\b", r"\1 not"),
        (("as always",), r"\bas always\b", "as usual"),
        (("i've", "ive"), r"\b(?:I've|ive)\b", "I have"),
        (("i'll",), r"\bI'll\b", "I will"),
        (("we're",), r"\bwe're\b", "we are"),
        (("'ve",), r"\b(we|they|you)'ve\b", r"\1 have"),
        (("we'll",), r"\bwe'll\b", "we will"),
        (
            ("'s",),
            (
                r"\b(it|that|there|he|she|name|what|who|appointment|interview|deadline|flight|wedding)'s\b(?! "
                r"(?:name|birthday))"
            ),
            r"\1 is",
        ),
        (("thats",), r"\bthats\b", "that is"),
        (
            ("address", "birthday", "budget", "deadline", "favo", "job", "rent", "salary", "timezone"),
            rf"\b((?:my|our) (?:{_SHORTENED}|favou?rite \w+))'s (?=\S)",
            r"\1 is ",
        ),
        (
            ("my", "our"),
            (
                r"(?<!to )(?<!at )(?<!from )\b((?:my|our) (?!favou?rite)[\w-]+(?: (?-i:[A-Z])\w+)?)['’]s (?=(?:an?|"
                r"the|not|from|in|on|at"
                r"|allergic|vegan|vegetarian|diabetic|"
                r"pregnant|deaf|blind|turning|getting|moving|coming|visiting|called|named|\d+|afraid|scared"
                r"|really|so|very|into|obsessed|"
                r"lactose|coeliac|celiac|retired|autistic|dyslexic|teething|due)\b)"
            ),
            r"\1 is ",
        ),
        (
            ("rather", "sooner"),
            (
                r"\b(I|we)(?:'d| would) (?:much |always |honestly )?(?:rather|sooner)\b(?! (?:not|you|it|if|that"
                r"|be|see|have (?:it|you|that)|go with|we|they))"
            ),
            r"\1 prefer to",
        ),
        (
            ("prefer",),
            r"\b(I|we)(?:'d| would) (?:much |always )?prefer\b(?! (?:not|you|it|if|that|to (?:be|see|know|keep)))",
            r"\1 prefer",
        ),
        (("can",), r"\b(?:can't|cant|can not)\b", "cannot"),
        (("won't",), r"\bwon't\b", "will not"),
        (("don",), r"\b(?:dont|don't)\b", "do not"),
        (("n't",), r"\b(does|did|is|are|was|were|has|have|had|would|could|should)n't\b", r"\1 not"),
        (("any ",), r"\b(?:any more|any longer)\b", "anymore"),
        (("gonna",), r"\bgonna\b", "going to"),
        (("wanna",), r"\bwanna\b", "want to"),
        ((" have got",), r"\b(I|we) have got\b(?! (?:married|engaged|divorced))", r"\1 have"),
        (("favorite",), r"\bfavorite\b", "favourite"),
        ((" have been ",), rf"\b(I|we) have been (?={_LASTING})", r"\1 am "),
        (("we am",), r"\bwe am\b", "we are"),
        (
            ("actually", "currently", "officially", "really"),
            r"\b((?:my|our|the) (?:[\w'-]+ ){1,5}?(?:is|are)) (?:actually|really|currently|officially)\b(?= (?!not\b))",
            r"\1",
        ),
        (
            ("allergic", "intolerant", "like", "love", "meant", "use", "want"),
            (
                r"(^|[:,] )(?:it is|it was) ([^,.]{3,40}?),? (?:that )?(I am (?:allergic|intolerant) to|I (?:meant|"
                r"like|"
                r"love|use|want))\b"
            ),
            r"\1\3 \2",
        ),
        (
            ("cannot have", "cannot eat", "cannot drink"),
            r"(^|[:,] )(?:it is) ([^,.]{3,30}?),? (?:that )?(I cannot (?:have|eat|drink))\b",
            r"\1\3 \2",
        ),
        (
            ("drinking", "eating", "taking"),
            r"\b(I|we) (?:have )?(?:now )?(?:started|begun) (drink|eat|tak)ing\b",
            r"\1 \2",
        ),
        ((" tak ",), r"\b(I|we) tak (?=\w)", r"\1 take "),
        (("let's",), r"\blet's\b", "let us"),
        (
            ("my favo",),
            r"^I (?:think|guess|believe|suppose|reckon)(?: that)? (?=.{2,60} (?:is|are) (?:now )?my favou?rite)",
            "",
        ),
        (
            ("new ",),
            (
                r"^(?:I|we) (?:have|got|have got)(?: an?)? (?:brand )?new ([\w ]{2,25}?)(?:, (?:it is )?|: ?| called | "
                r"named )(?:an? )?"
                r"(?=(?-i:[A-Z])|[+\d])(?!.*\band\b)"
            ),
            r"my \1 is ",
        ),
        ((" new ",), r"\b(my|our) new (?=(?!york|zealand|jersey|delhi|orleans)\w+(?: \w+)? is\b)", r"\1 "),
        (
            ("day",),
            r"\b((?:mon|tues|wednes|thurs|fri|satur|sun)day),? (?=\d{1,2}(?:[:.]\d\d)? ?[ap]m\b|\d{1,2}:\d\d\b)",
            r"\1 at ",
        ),
        (
            ("home",),
            r"^((?-i:[A-Z])\w+(?: (?-i:[A-Z])\w+)?) is (?:my |our )?(?:new )?home(?: now)?(?=[.!,]|$)",
            r"I live in \1 now",
        ),
        ((" smoking again",), r"\b(I|we) (?:am|are) smoking again\b", r"\1 smoke now"),
        ((" drinking again",), r"\b(I|we) (?:am|are) drinking again\b", r"\1 drink alcohol now"),
        ((" says ", " reads ", " shows "), r"\bit (?:says|reads|shows) (?=[\d$€£])", "it is "),
        (
            (" says ",),
            r"\b(bell|doorbell|door|letterbox|mailbox|label|sign|tag|badge|plate|box) says (?=(?-i:[A-Z])|\d)",
            r"\1 reads ",
        ),
        (
            ("any day", "any time", "anytime", "every time"),
            (
                r"\b(I|we)(?:'d| would) (?:take|pick|choose|go for|have) ([^,.;!?]{3,60}) over "
                r"(?=[^.;!?]{3,60} (?:any|every) ?(?:day|time)\b)"
            ),
            r"\1 prefer \2 over ",
        ),
        (
            (" they said", " they told"),
            r"\b((?:is|are|has|have) [^,.;!?]{3,50}?),? they (?:said|told us|told me)(?=[.!,]|$)",
            r"\1",
        ),
        (("work as ", "working as "), r"\b(work(?:ing)? as (?:an? )?[\w -]{3,25}?) by (?=(?-i:[A-Z]))", r"\1 at "),
        (("grand",), r"\b(\d{1,3}(?:\.\d)?) grand\b", r"\1k"),
        (("leftie", "lefty", "southpaw"), r"\b(am|is) an? (?:leftie|lefty|southpaw)\b", r"\1 left-handed"),
        (
            ("obsessed", " into ", "allergic", "scared", "afraid", "terrified"),
            (
                r"\b(is|are) (?:(?:completely|totally|absolutely|really|so|very|super|deeply|quite|also|pretty) )+"
                r"(?=obsessed|into|allergic|scared|afraid|terrified)"
            ),
            r"\1 ",
        ),
        ((), r"\s*[^\S ]\s*| {2,}", " "),
    )
)
"""What is written how, in order; of the texts in front of each pattern one stands in whatever it matches."""
_FILLER = (
    r"(?:really|actually|currently|just|also|absolutely|totally|definitely|mostly|usually|always|already|finally|both|"
    r"basically|literally|truly|simply|generally|mainly|typically|still|personally|honestly|especially|particularly|"
    r"quite|very|so|pretty|officially|recently|kind of|sort of|certainly|strongly|obviously|probably|normally|"
    r"primarily|often|"
    r"badly|too|now|do(?= (?:like|love|enjoy|prefer|have|own|live|work|need|want)\b)|genuinely|completely|deeply|sadly|"
    r"unfortunately|happily|secretly|severely|seriously|mildly|highly|deathly|terribly)"
)
_FILLED = re.compile(
    rf"\b((?:I|we)(?: (?:am|are|have|do|will|cannot))?(?: (?:not|been))?)((?: {_FILLER}(?![\w-]))+)(?= )",
    re.IGNORECASE,
)


def normalised(text: str) -> str:
    """The text with contractions written out, fillers after "I" taken out, white space made single."""
    low = text.lower()
    for hints, pattern, instead in _CONTRACTIONS:
        if hints and not _holds(low, hints):
            continue  # most patterns are in few texts, and to look for a few letters costs a tenth of a search
        plain = pattern.sub(instead, text)
        if plain != text:
            text, low = plain, plain.lower()
    return _FILLED.sub(_without_filler, text).strip()


def _holds(text: str, hints: tuple[str, ...]) -> bool:
    for hint in hints:  # noqa: SIM110 - a generator for "any" would cost more than what it looks for
        if hint in text:
            return True
    return False


def _without_filler(match: re.Match[str]) -> str:
    return match[1]
