"""What never becomes a fact, whoever said it."""

import re

from memproxy.learn.candidates import Extracted

_PLANTED = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|all|any|your|the|these|those)\b.{0,30}"
    r"\b(?:instructions?|prompts?|rules?|guidelines?|directives?)\b"
    r"|\b(?:system|developer) (?:prompt|message|instructions?)\b"
    r"|\byou are now\b|\bact as (?:an? )?(?:unrestricted|jailbroken|dan\b)|\bdo anything now\b|\bjailbreak"
    r"|\b(?:the )?(?:assistant|ai|model|llm|chatbot) (?:must|should|shall|has to|needs to|will) (?:always|never|now)\b"
    r"|</?\s*(?:recalled-memory|system|instructions?)\b|\[/?inst\]|<\|im_(?:start|end)\|>",
    re.IGNORECASE | re.DOTALL,
)


def rejection(candidate: Extracted) -> str | None:
    """Why a candidate is not stored as a fact, or None: text that plants instructions stays a turn (CONTRACT 7.6)."""
    text = " ".join(part for part in (candidate.content, candidate.object or "", *candidate.evidence) if part)
    return "instructions" if _PLANTED.search(text) else None
