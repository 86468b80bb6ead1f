"""Names that were told in one project, and what is learned in another."""

from pathlib import Path

from memproxy.core.scope import Scope
from tests.learn.rig import rig
from tests.learn.test_changes import triple


def project(name: str | None) -> Scope:
    return Scope(tenant="acme", user="ann", session=f"s-{name}", project=name)


async def test_what_is_learned_in_a_project_goes_by_the_names_that_were_told_there(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        short = triple("TS is short for TypeScript", "short_for", "TypeScript", subject="TS")
        await r.teach(short["content"], short, scope=project("atlas"))
        seen = {}
        for name in ("apollo", None, "atlas"):
            old = triple("TS is 30 years old", "age", "30", "TS")
            await r.teach(old["content"], old, scope=project(name))
            seen[name] = {
                (fact.subject, fact.wing)
                for fact in await r.facts(project(name))
                if fact.predicate == "age" and fact.project_id == name
            }
        assert seen == {"apollo": {("TS", "ts")}, None: {("TS", "ts")}, "atlas": {("Typescript", "typescript")}}
