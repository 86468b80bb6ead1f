"""The judge of ``learn.judge: llm``: a model is asked about pairs of statements that the rules are unsure of.

It advises, code decides: it cannot make an episode, another aspect, an item of a list or something less trusted replace
anything (`core.facts.may_replace`); where its answer cannot be read, or does not come in time, the rules decide.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence

from memproxy.core.block import quote
from memproxy.core.facts import Bands, Decision, Operation, begins, in_gray_zone, is_older, may_replace, trusted_enough
from memproxy.core.memory import Memory
from memproxy.core.similar import Neighbour
from memproxy.core.slots import same_value, slot_value
from memproxy.errors import ModelError, ModelRefused
from memproxy.learn.access import ModelAccess
from memproxy.learn.budget import TokenMeter
from memproxy.learn.extract import load_prompt
from memproxy.metrics import metrics
from memproxy.ports import ChatModel
from memproxy.settings import Settings

log = logging.getLogger(__name__)

JUDGE_PROMPT = "judge.md"
SAME, REPLACES, SEPARATE = "same", "replaces", "separate"

Advice = Mapping[str, Mapping[str, str]]  # for each candidate (`candidate_key`) the verdicts by id of the known memory
_MOST_PAIRS = 3  # pairs asked about for one candidate: the nearest decide, and every question costs
_MOST_SHOWN = 500
_VERDICT = re.compile(rf"\b({SAME}|{REPLACES}|{SEPARATE})\b")


def candidate_key(candidate: Memory) -> str:
    """What tells a candidate from the others of its row, however often it is made."""
    return f"{candidate.turn_ids}|{candidate.content}"


class Judge:
    """Asks the model of role ``judge``, within that role's timeout and the tenant's budget of tokens."""

    def __init__(self, model: ChatModel, settings: Settings, access: ModelAccess, meter: TokenMeter) -> None:
        """Raises `ConfigError` where ``learn.prompts_dir`` cannot be read."""
        self._model = model
        self._role = settings.models.judge
        self._access = access
        self._meter = meter
        self._system = load_prompt(settings.learn.prompts_dir, JUDGE_PROMPT).text

    async def verdicts(
        self, tenant: str, candidate: Memory, chain: Sequence[Memory], near: Sequence[Neighbour], bands: Bands
    ) -> dict[str, str]:
        """``same``, ``replaces`` or ``separate`` by id of each doubtful memory for which there is an answer."""
        verdicts = {}
        for memory in doubtful(candidate, chain, near, bands)[:_MOST_PAIRS]:
            verdict = await self._ask(tenant, candidate, memory)
            if verdict is not None:
                verdicts[memory.id] = verdict
            if verdict in (SAME, REPLACES):
                break
        return verdicts

    async def _ask(self, tenant: str, candidate: Memory, memory: Memory) -> str | None:
        user = "\n".join([_line("known", memory), _line("new", candidate), "", "Answer with the JSON object only."])
        try:
            credential = self._access.credential(tenant, self._role)
            if credential is None:
                raise ModelRefused("no key is known for models.judge; the tenant's next request brings one")
            reply = await self._meter.ask(self._model, credential, tenant, "judge", system=self._system, user=user)
        except (ModelRefused, ModelError) as error:
            metrics().internal_errors.labels(where="learn.judge").inc()
            log.warning("the judge did not answer, the rules decide: %s", error)
            return None
        return read_verdict(reply.text)


def _line(name: str, memory: Memory) -> str:
    fields = {"statement": name, "date": begins(memory).date().isoformat(), "text": quote(memory.content)[:_MOST_SHOWN]}
    return json.dumps(fields, ensure_ascii=False)


def read_verdict(text: str) -> str | None:
    """The verdict in an answer; None when it holds none, or several."""
    verdicts = set(_VERDICT.findall(text.casefold()))
    return verdicts.pop() if len(verdicts) == 1 else None


def doubtful(candidate: Memory, chain: Sequence[Memory], near: Sequence[Neighbour], bands: Bands) -> list[Memory]:
    """Known memories that the rules are unsure of: those in the gray zone, or a holder whose value may be the same."""
    if chain:
        holder = chain[-1]
        asks = holder.active and not is_older(candidate, holder) and trusted_enough(candidate, holder)
        return [holder] if asks and _could_be_the_same(candidate, holder) else []
    return [neighbour.memory for neighbour in near if in_gray_zone(candidate, neighbour, bands)]


def _could_be_the_same(candidate: Memory, holder: Memory) -> bool:
    """Whether the values are others for the rules and share a word ("Berlin", "Berlin, Germany")."""
    value, other = slot_value(candidate), slot_value(holder)
    shares_word = not set(value[1:].split("_")).isdisjoint(other[1:].split("_"))
    return shares_word and value[:1] == other[:1] and not same_value(value, other)


def apply_verdicts(
    decision: Decision,
    candidate: Memory,
    verdicts: Mapping[str, str],
    *,
    chain: Sequence[Memory],
    near: Sequence[Neighbour],
    bands: Bands,
) -> Decision:
    """The decision, changed by a verdict where it is still about a doubtful pair and nothing forbids it."""
    for memory in doubtful(candidate, chain, near, bands):
        verdict = verdicts.get(memory.id)
        if verdict == SAME:
            return Decision(Operation.DUPLICATE, memory)
        if verdict == REPLACES and (chain or may_replace(candidate, memory)):
            return Decision(Operation.UPDATE, memory)
        if verdict == SEPARATE and not chain and decision.target is not None and decision.target.id == memory.id:
            return Decision(Operation.COEXIST, memory)
    return decision
