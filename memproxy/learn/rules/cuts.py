"""Where a sentence is cut: before each new statement in it."""

import re

from memproxy.learn.rules.words import KIN, PETS

_BEGINS = (
    r"(?:I|we|my|our|its|their|please|call me|it|that|he|she|they|you|this|there|do not|never|always"
    r"|what|how|why|where|any|suggest|recommend|give me|remind me|tell me|show me|text me|find me|explain|help|"
    r"his|her|can|"
    r"could|would|"
    r"should|is|are|does|did|let|make|forget|delete|the|ich|je|j'|me|mein|meine|wohne|lebe|arbeite|vivo|soy|trabajo|"
    r"tengo)\b"
)
_ELLIPTIC = (
    r"(?:live|work|love|hate|(?<!, )like(?! (?:I|we|you|a|an|this|that)\b)|prefer|enjoy|"
    r"own|drive|speak|play|study|teach|have|am|are|do not|cannot|use|"
    r"run|was born|"
    r"grew up|moved|need|never|dislike|adore|collect|got|bought|adopted|take|weigh|wear|no longer|stopped|quit|"
    r"became|switched|started (?=at|work|with|as|(?-i:[A-Z]))|teach|turned|joined|release|bake|swim|cycle|dabble|"
    r"sell|rent|"
    r"maintain|tutor|coach(?! \w+ed\b)|volunteer"
    r"|smoke|commute|freelance|(?:want|hope|plan)(?= to\b))\b"
)
ANOTHER = (
    rf"(?:(?:an?|two|three|four|\d) (?:(?:older|younger|little|big|new) "
    rf")?(?:{'|'.join(sorted(map(re.escape, KIN | PETS.keys()), key=len, reverse=True))})s?\b)"
)
THIRD = re.compile(
    r"(?:now |also |then )?(?:plays|works|lives|goes to|studies|drives|eats|speaks|teaches|collects|sings|paints|rides|"
    r"attends|wears)\b",
    re.IGNORECASE,
)
"""What is said on of the one of whom the clause before speaks ("Emre dropped the trombone and plays the horn")."""

THIRD_TOO = re.compile(
    r"(?:now |also |then )?(?:turns|swims|dances|hates|loves|likes|needs|hosts|takes|starts|"
    r"has(?! (?:he|she|it|anyone|my|the)\b)|"
    r"is (?!he\b|she\b|it\b|that\b|this\b|there\b|the\b|my\b|our\b|your\b|they\b|you\b|any\b))\b",
    re.IGNORECASE,
)
"""What may be said on of somebody, where the clause before speaks of one; else it stands as it is."""

_NAME = r"(?-i:[A-Z])\w+"
CUT = re.compile(
    rf",\s*(?=[^,]{{3,40}} (?:I|we)'d\b)|;\s*|\s[-–—]+\s|—|\s*[()]\s*|(?:,\s*|\s+)(?:and|but|so|because|since|"
    rf"though|although|plus|yet|while|whereas|as(?! (?:my|our) (?!\w+ (?:is|are|has|was|\w+s)\b)[\w-]+(?: "
    rf"[\w-]+)?(?:$|[,.;!]| (?:and|since|for|now|because)\b))|und|aber|y|et)\s+(?=(?:now |then |also |these days |"
    rf"today "
    rf")?{_BEGINS})"
    rf"|,\s+(?=(?:max |total |with a )?budget (?:of |is )?[$€£]?\d)|,\s+(?=[\w-]+(?: [\w-]+)? (?:is|are) now )|"
    rf",\s+(?=(?:[$€£]?\d[\w.,:]*|(?-i:[A-Z])[\w.+#-]*(?: "
    rf"(?-i:[A-Z])[\w.+#-]*)?) (?:now|instead|actually)\b)"
    rf"|,?\s+so\s+(?=(?-i:[A-Z])\w+ is (?:my|our)\b)|,?\s+but\s+(?=(?:\w+ )?\w+ tastes? like )"
    rf"|,\s*(?=(?:now |then |these days )?{_BEGINS})|\s+and\s+(?={ANOTHER})|,\s*(?:and |but |so |because |as "
    rf")?(?={_ELLIPTIC})|\s+(?:and|but)\s+(?=(?:now |then )?{_ELLIPTIC})|:\s+(?={_BEGINS})|:\s+(?=(?-i:[A-Z])\w+ "
    rf"(?:costs|is|are|starts|ends|takes|has|studies|plays|lives|works|goes|eats)\b)|\s+(?=please note (?:that )?"
    rf"(?:I|my|we|our)\b)|,\s*(?=(?:the |my |our )?(?:doc|doctor|vet|physio|gp|boss) says?\b)"
    rf"|,?\s+(?:and|but)\s+(?=(?:yesterday|today|this morning|last (?:night|week|month)) )|,\s*(?=starting (?:at|as|"
    rf"with) )|\s+and\s+(?=(?:moved|switched|changed) to (?-i:[A-Z])|(?:gave|sold) (?:my|our|the) )|,\s*(?={_NAME} "
    rf"is (?:\d|my |our ))|\s+and\s+(?={THIRD.pattern}|{THIRD_TOO.pattern})",
    re.IGNORECASE,
)
LEFT_OUT = re.compile(rf"{_ELLIPTIC}|{ANOTHER}|changed to (?-i:[A-Z])|(?:gave|sold) (?:my|our|the) ", re.IGNORECASE)
