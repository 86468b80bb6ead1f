"""Text made plain, so that one pattern fits the many ways of writing the same: contractions, chat spelling, fillers."""

import re

from memproxy.learn.rules.words import KIN, PARENTS, PARTNERS

_SHORTENED = "budget|birthday|address|rent|deadline|salary|timezone|job"
_LASTING = (
    "an? |vegan|vegetarian|allergic|living|working|married|using|learning|playing|collecting|studying|based|"
    "self-employed|retired|off "
)
_CONTRACTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"[’`´]", "'"),
        (r"\bI'm\b", "I am"),
        (
            r"\b(?:I|we)(?:'d| would) (?:rather|prefer|like)(?: it)?(?: if)? you (?:didn't|did not|don't|do not) ",
            "do not ",
        ),
        (r"\bim(?= \w)", "I am"),
        (r"\bw/ ?(?=\w)", "with "),
        (r"\b(?:pls|plz)\b", "please"),
        (r"\b(a|per|every|each|last|this|next) wk\b", r"\1 week"),
        (r"^([^,.!?]{2,40}),? I (?:mean|meant)(?=[.!]|$)", r"I meant \1"),
        (r"^([\w' -]{2,25}) it is(?=[.!]|$)", r"make it \1"),
        (r" & (?=(?:I|i|we|my|our|he|she|they) )", " and "),
        (r"\bw (?=(?:(?:an?|the|my|our|his|her) |aura\b|(?-i:[A-Z])))", "with "),
        (r"\b(?:dosnt|doesnt)\b", "does not"),
        (r"\b(?:were|we're) (?=(?:a |an |foster|vegan|vegetarian|parents|from|based|renting|both)\b)", "we are "),
        (r"\bw (?=(?:my|our|a|an|the|type)\b|[a-z]+ (?:\d|[a-z]+$))", "with "),
        (r"\bn (?=(?:I|i|we|my|our|she|shes|he|hes|it|they|no|now|also)\b)", "and "),
        (r"\b(love|like|hate|enjoy)(.{2,40}?) sm\b", r"\1\2"),
        (r"\b(I|we) (?:much|far|vastly|greatly) prefer\b", r"\1 prefer"),
        (r"\b(?:cuz|coz|bc)\b", "because"),
        (r"\b(?:tho)\b", "though"),
        (r"\brn\b", "right now"),
        (r"\b(my|our) bf\b", r"\1 boyfriend"),
        (r"\b(my|our|'s) b-?day\b", r"\1 birthday"),
        (
            (
                r"\bits(?= (?:not|actually|now|at|on|called|named|been|\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day|"
                r"january|february|march|april|may|june|july|august|september|october|november|december)\b| [$€£])"
            ),
            "it is",
        ),
        (r"\bits (?=so\b|too\b|just\b|really\b|always\b)", "it is "),
        (
            (
                r"\b(my|our) (son|daughter|sister|brother|husband|mum|mom|dad|friend|boss|partner|boyfriend|"
                r"girlfriend)s "
                r"(?=(?:teacher|school|class|birthday|house|flat|dog|cat|car|wedding|boss|friend|room|name|nursery|job|"
                r"team)s?\b)"
            ),
            r"\1 \2's ",
        ),
        (
            (
                rf"\b((?:my|our) "
                rf"(?:{'|'.join(sorted(map(re.escape, KIN | PARTNERS | PARENTS), key=len, reverse=True))})(?: "
                rf"(?-i:[A-Z])\w+)?) "
                r"(?:(?:has|just|recently|now|finally) )*(?:became|become|"
                r"got promoted to|was promoted to) (?=an? |the )"
            ),
            r"\1 is ",
        ),
        (r"\bshes\b", "she is"),
        (r"\bhes\b", "he is"),
        (r"\btheyre\b", "they are"),
        (r"\b(my|our) gf\b", r"\1 girlfriend"),
        (r"\b(my|our) (?:hubby|hubs|dh)\b", r"\1 husband"),
        (r"\b(my|our) (?:wifey|missus|mrs)\b", r"\1 wife"),
        (r"\b(my|our) kiddos?\b", r"\1 kids"),
        (r"\bgotta\b", "have to"),
        (r"\b(have|has|had|did|does|is|are|was|were|could|would|should)nt\b", r"\1 not"),
        (r"\bas always\b", "as usual"),
        (r"\b(?:I've|ive)\b", "I have"),
        (r"\bI'll\b", "I will"),
        (r"\bwe're\b", "we are"),
        (r"\b(we|they|you)'ve\b", r"\1 have"),
        (r"\bwe'll\b", "we will"),
        (
            (
                r"\b(it|that|there|he|she|name|what|who|appointment|interview|deadline|flight|wedding)'s\b(?! "
                r"(?:name|birthday))"
            ),
            r"\1 is",
        ),
        (r"\bthats\b", "that is"),
        (rf"\b((?:my|our) (?:{_SHORTENED}|favou?rite \w+))'s (?=\S)", r"\1 is "),
        (
            (
                r"\b((?:my|our) (?!favou?rite)[\w-]+(?: (?-i:[A-Z])\w+)?)['’]s (?=(?:an?|the|not|from|in|on|at"
                r"|allergic|vegan|vegetarian|diabetic|"
                r"pregnant|deaf|blind|turning|getting|moving|coming|visiting|called|named|\d+|afraid|scared"
                r"|really|so|very|into|obsessed|"
                r"lactose|coeliac|celiac|retired|autistic|dyslexic|teething|due)\b)"
            ),
            r"\1 is ",
        ),
        (
            (
                r"\b(I|we)(?:'d| would) (?:much |always |honestly )?(?:rather|sooner)\b(?! (?:not|you|it|if|that"
                r"|be|see|have (?:it|you|that)|go with|we|they))"
            ),
            r"\1 prefer to",
        ),
        (
            r"\b(I|we)(?:'d| would) (?:much |always )?prefer\b(?! (?:not|you|it|if|that|to (?:be|see|know|keep)))",
            r"\1 prefer",
        ),
        (r"\b(?:can't|cant|can not)\b", "cannot"),
        (r"\bwon't\b", "will not"),
        (r"\b(?:dont|don't)\b", "do not"),
        (
            r"\b(does|did|is|are|was|were|has|have|had|would|could|should)n't\b",
            r"\1 not",
        ),
        (r"\b(?:any more|any longer)\b", "anymore"),
        (r"\bgonna\b", "going to"),
        (r"\bwanna\b", "want to"),
        (r"\b(I|we) have got\b(?! (?:married|engaged|divorced))", r"\1 have"),
        (r"\bfavorite\b", "favourite"),
        (rf"\b(I|we) have been (?={_LASTING})", r"\1 am "),
        (r"\bwe am\b", "we are"),
        (
            r"\b((?:my|our|the) (?:[\w'-]+ ){1,5}?(?:is|are)) (?:actually|really|currently|officially)\b(?= (?!not\b))",
            r"\1",
        ),
        (
            (
                r"(^|[:,] )(?:it is|it was) ([^,.]{3,40}?),? (?:that )?(I am (?:allergic|intolerant) to|I (?:meant|"
                r"like|"
                r"love|use|want))\b"
            ),
            r"\1\3 \2",
        ),
        (r"\b(I|we) (?:have )?(?:now )?(?:started|begun) (drink|eat|tak)ing\b", r"\1 \2"),
        (r"\b(I|we) tak (?=\w)", r"\1 take "),
        (r"\blet's\b", "let us"),
        (r"^I (?:think|guess|believe|suppose|reckon)(?: that)? (?=.{2,60} (?:is|are) (?:now )?my favou?rite)", ""),
        (
            (
                r"^(?:I|we) (?:have|got|have got)(?: an?)? (?:brand )?new ([\w ]{2,25}?)(?:, (?:it is )?|: ?| called | "
                r"named )"
                r"(?=(?-i:[A-Z])|[+\d])(?!.*\band\b)"
            ),
            r"my \1 is ",
        ),
        (r"\b(my|our) new (?=(?!york|zealand|jersey|delhi|orleans)\w+(?: \w+)? is\b)", r"\1 "),
        (r"[\s\xa0]+", " "),
    )
)
_FILLER = (
    r"(?:really|actually|currently|just|also|absolutely|totally|definitely|mostly|usually|always|already|finally|both|"
    r"basically|literally|truly|simply|generally|mainly|typically|still|personally|honestly|especially|particularly|"
    r"quite|very|so|pretty|officially|recently|kind of|sort of|certainly|strongly|obviously|probably|normally|"
    r"primarily|often|"
    r"too|now|do(?= (?:like|love|enjoy|prefer|have|own|live|work|need|want)\b)|genuinely|completely|deeply|sadly|"
    r"unfortunately|happily|secretly|severely|seriously|mildly|highly|deathly|terribly)"
)
_FILLED = re.compile(
    rf"\b((?:I|we)(?: (?:am|are|have|do|will|cannot))?(?: (?:not|been))?)((?: {_FILLER}(?![\w-]))+)(?= )",
    re.IGNORECASE,
)


def normalised(text: str) -> str:
    """The text with contractions written out, fillers after "I" taken out, white space made single."""
    for pattern, instead in _CONTRACTIONS:
        text = pattern.sub(instead, text)
    return _FILLED.sub(_without_filler, text).strip()


def _without_filler(match: re.Match[str]) -> str:
    return match[1]
