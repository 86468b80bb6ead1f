"""What a question takes for granted: the reason it gives, what it calls odd, what its asker is.

"Which pen does not smear, because I'm a leftie", "is it normal that we sleep in two rooms": the subordinate clause is
stated, whatever is asked. What a question supposes ("if I had ...") is not.
"""

import re
from collections.abc import Iterator

_REASON = re.compile(
    r"(?<!is it )(?<!was it )(?<!that is )(?:,? \b(?:because|since|now that|given that|considering(?: that)?|"
    r"seeing (?:as|that)|even though|although)"
    r"|\b(?:is|was) it (?:really |so |that )?(?:weird|normal|odd|strange|bad|ok|okay|rude|wrong|fine|crazy|sad|silly|"
    r"lame|cheating|a problem|an issue) that"
    r"|\bwhen(?= (?:I|we) (?:only |just )?(?:earn|make|bring home|take home|get paid) [^,;?!]{0,20}\d))"
    r" (?P<x>(?:I|we|my|our)\b[^;?!]{4,120})",
    re.IGNORECASE,
)
_CUES = ("because", "since", "that", "though", "seeing as", "when ")
_ENDS = re.compile(
    r",? (?:so |and |but )?(?:what|how|which|who|where|why)\b|,(?! \w+(?: \w+)?,? and )",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:if|whether|unless|would|could|might|imagine|suppose|pretend|say that|let us say|maybe|perhaps)\b|\bam I\b",
    re.IGNORECASE,
)


def presupposed(asked: str) -> Iterator[str]:
    """The statements that a question holds, each as a clause of its own."""
    low = asked.lower()
    if not any(cue in low for cue in _CUES):
        return
    for match in _REASON.finditer(asked):
        if _SUPPOSED.search(asked[: match.start()]) is not None or _SUPPOSED.search(match["x"]) is not None:
            return
        said = match["x"]
        if (end := _ENDS.search(said)) is not None:
            said = said[: end.start()]
        yield said.strip(" .,")
