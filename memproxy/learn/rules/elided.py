"""Clauses that leave out their subject ("been on it since March", "not a fan of X"): with it they read like others.

People write to an assistant as they write notes. Only forms that can be no command and no noun are completed.
"""

import re

from memproxy.learn.rules.unmarked import owned

_HAVE = r"(?:been|gone|lived|worked|had to|known)"
_DID = (
    r"(?:got(?! it\b| this\b| that\b| an? (?:error|question|message|mail|email))|bought|sold|quit|stopped|started|"
    r"tried|moved|joined|switched|cancelled|canceled|gave up|gave away|gave (?:my|our|the) [\w' -]{2,30}? (?:back|"
    r"away)|handed back|returned|got rid of|lost|broke|finished|adopted"
    r"|signed up|booked|took up|"
    r"picked up|dropped|ditched|turned|became|passed|failed|retired|graduated|left my|"
    r"handed in (?:my|the)|had (?:my|an?)|just (?:got|"
    r"bought|moved|started|turned|quit|sold|finished|became|adopted|joined|switched)|used to|grew up|ended up|"
    r"went with|settled on|decided|cannot (?:stand|eat|have|do|drink|be doing|sleep|tolerate|handle|take)|"
    r"do not (?:like|eat|drink|want|have|own|smoke|do|enjoy|drive|speak|wear|take|live|work)|did not|"
    r"have not (?:touched|smoked|eaten|drunk|used|played)\b|have(?: not|n't)? (?:been|had|got|an?|two|three|four|"
    r"\d+) |hate|love|prefer|live in|live with|live on|"
    r"work (?:at|as|for|in|from)|need (?:an?|my) |never (?:got on with|got into|warmed to|cared for|eat|drink|"
    r"learned|liked|had|wear|drive|been|fly) )"
)
_DOING = (
    r"(?:taking|starting|moving|training(?= (?:for|as|hard|in|to|with|at)\b)|working (?:at|as|for|in|on|from)|"
    r"living|learning|saving|planning|trying to|"
    r"flying|going to (?!be\b)|studying|expecting|renting|renovating|restoring|recovering|raising"
    r"|hosting|running (?:a|my|the)|"
    r"teaching|visiting|driving(?! (?:test|exam|lessons?|licen[cs]e|school))|travell?ing|staying|getting "
    r"married|hoping to|thinking of|building|writing (?:a|my)|"
    r"preparing|dating|caring for|looking after|turning \d+|allergic to|intolerant to|into|"
    r"(?:not )?(?:really )?(?:a )?(?:big |huge )?fan of|not into|done with|fed up with|sick of|off to|new to|pregnant|"
    r"based in|vegan|vegetarian|lactose intolerant|diabetic|retired|on call|on (?:keto|a diet|insulin|antibiotics|"
    r"blood thinners|parental leave|maternity leave)|from (?-i:[A-Z])|an? (?:nurse|teacher|student|developer|vegan|"
    r"vegetarian|beginner|freelancer|designer|programmer|mum|mom|dad|mother|father) )"
)
_FORMS = (
    (re.compile(rf"(?=(?:just |also |already )?{_HAVE}\b)", re.IGNORECASE), "I have "),
    (re.compile(rf"(?={_DID})", re.IGNORECASE), "I "),
    (re.compile(r"(?=not [a-z]+ing .*\banymore\b)", re.IGNORECASE), "I am "),
    (
        re.compile(
            rf"(?=(?:currently |also |still |now |just )?{_DOING}\b(?! (?:goes|is|was|went|has|takes)\b))",
            re.IGNORECASE,
        ),
        "I am ",
    ),
)


def restored(text: str) -> str:
    """The clause with the "I" that it leaves out, else as it is."""
    for pattern, subject in _FORMS:
        if pattern.match(text):
            return f"{subject}{text[0].lower()}{text[1:]}"
    if (being := _BEING.fullmatch(text)) is not None:
        return f"I am {being['x']}"
    return owned(text)


_BEING = re.compile(
    r"being (?!(?:able|told|asked|said|honest|serious|the|that|this)\b)(?P<x>(?:an? )?[a-z][\w' -]{2,40}?)"
    r"(?: and (?:fine|ok|okay|happy|cool) with (?:it|that))?",
    re.IGNORECASE,
)
"""“Being single and fine with it, how do I answer my aunt?”"""
