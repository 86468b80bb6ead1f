"""Several searches for one message: one with several questions is searched once for each."""

from collections.abc import Sequence

from memproxy.recall.search import Scored


def averaged(*searches: Sequence[Scored]) -> list[Scored]:
    """Everything found, by the mean of its scores (0 where it was not found), so that none drowns the others; each
    keeps the best of its scores, by which the floor judges whether it answers.
    """
    best: dict[tuple[str | None, str], Scored] = {}
    total: dict[tuple[str | None, str], float] = {}
    for one in (one for search in searches for one in search):
        key = (one.memory.session_id, one.memory.id)
        total[key] = total.get(key, 0.0) + one.score
        if key not in best or best[key].score < one.score:
            best[key] = one
    return sorted(best.values(), key=lambda one: (-total[one.memory.session_id, one.memory.id], -one.score))
