"""Ids in headers: which characters one may have."""

import pytest

from memproxy.auth.headers import Headers, clean_id
from memproxy.errors import RequestError


@pytest.mark.parametrize("name", ["ada", "Ada Löve", "non\u00a0breaking", "zero\u200bwidth", "del\x7f", "未命名", ""])
def test_an_id_may_have_any_characters_but_control_characters(name: str) -> None:
    assert clean_id(name, "user") == name


@pytest.mark.parametrize("name", ["tab\there", "nul\x00", "half\ud800surrogate", "zero\u200bwidth\x1f"])
def test_control_characters_and_half_surrogates_are_refused(name: str) -> None:
    with pytest.raises(RequestError):
        clean_id(name, "user")


@pytest.mark.parametrize("name", [".", "..", " .. "])
def test_no_name_is_a_step_that_clients_take_out_of_a_path(name: str) -> None:
    with pytest.raises(RequestError, match="no path"):
        clean_id(name, "user")


def test_a_header_that_is_there_twice_with_one_value_counts_once_and_with_two_is_refused() -> None:
    twice = Headers([(b"X-Memproxy-User", b"ada"), (b"x-memproxy-user", b" ada ")])
    assert twice.single(b"x-memproxy-user") == "ada"
    with pytest.raises(RequestError):
        Headers([(b"x-memproxy-user", b"ada"), (b"x-memproxy-user", b"ben")]).single(b"x-memproxy-user")
