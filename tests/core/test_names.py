"""Names that are made for every memory: quick ways to make them give what the plain ones give."""

import re
import unicodedata
import uuid

from hypothesis import example, given
from hypothesis import strategies as st

from memproxy.core.palace import slug
from memproxy.core.turn import point_id_for

ROOT = uuid.UUID("6f0d5b0e-6a51-5c57-9d7c-1d5f6f0f3a10")
TEXT = st.text(st.characters(codec="utf-8"))


@given(TEXT, TEXT, st.one_of(st.none(), TEXT), TEXT)
def test_a_memorys_place_is_a_uuid5_of_its_owner_and_its_id(
    tenant: str, user: str, session: str | None, name: str
) -> None:
    made = uuid.uuid5(ROOT, "\x1f".join((tenant, user, session or "", name)))
    assert point_id_for(tenant, user, session, name) == str(made)


@given(st.one_of(TEXT, st.text(st.characters(codec="ascii"))))
@example("The Café's ÅNGSTRÖM Straße_№2")
@example("It's A plain_text-Example 42")
def test_a_slug_of_plain_text_is_made_as_that_of_any_text(text: str) -> None:
    plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    plain = unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", plain)).casefold()
    whole = "-".join(re.findall(r"[^\W_]+", plain))
    assert whole.startswith(slug(text))
    assert slug(text) == whole or len(whole) > len(slug(text)) > 0
