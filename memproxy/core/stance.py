"""What somebody holds of a thing: opinions, told by their predicate or by the stance that was noted with them.

"I love TypeScript", "its generics annoy me" and "fine for big projects" are three opinions of one thing by aspect; of
one aspect somebody holds one at a time, so that another stance there is a change.
"""

from collections.abc import Sequence

FEEL_ABOUT = "feel_about"
"""The one name of all predicates that say what somebody holds of a thing."""

REGARD = "regard"
"""The same where the thing itself is the subject ("TypeScript's generics": "annoying")."""

_SIGNS = {"positive": "+", "negative": "-", "mixed": "~", "neutral": "0"}
_HELD = frozenset({"positive", "negative", "mixed"})
_POLARITY = {
    **dict.fromkeys(("like", "love", "enjoy", "adore", "favor", "favour", "fan", "fond", "appreciate"), True),
    **dict.fromkeys(("dislike", "hate", "loathe", "detest", "despise", "annoyed", "bothered", "irritated"), False),
    **dict.fromkeys(("frustrated",), False),
}
_OPEN = frozenset({("opinion",), ("feel", "about"), ("feeling", "about"), ("attitude",), ("view", "on")})
_ON_ME = {"annoy": False, "bother": False, "irritate": False, "frustrate": False, "delight": True}
"""What a thing does to somebody who holds an opinion of it ("its generics annoy me")."""


def polarity(said: Sequence[str]) -> bool | None:
    """Whether the words of a predicate like (True) or dislike (False) their object; None for others."""
    return _POLARITY.get(said[0]) if said else None


def is_open_opinion(said: Sequence[str]) -> bool:
    """Whether these words of a predicate ask for an opinion without saying which ("opinion_of", "feels about")."""
    return any(tuple(said[: len(start)]) == start for start in _OPEN)


def acts_on(said: Sequence[str]) -> bool | None:
    """Whether a thing pleases (True) or troubles (False) whom it acts on; None for other predicates."""
    return _ON_ME.get(said[0]) if said else None


def is_held(stance: str | None) -> bool:
    """Whether a stance says more than that there is none."""
    return (stance or "").casefold() in _HELD


def sign(stance: str | None, *, affirms: bool) -> str:
    """One character for a stance: that of the predicate, unless a stance was noted that the predicate cannot say."""
    noted = (stance or "").casefold()
    return _SIGNS.get(noted, "+" if affirms else "-")


def named(*, likes: bool) -> str:
    """The stance of a predicate that likes or dislikes."""
    return "positive" if likes else "negative"
