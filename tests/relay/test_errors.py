import json

import pytest

from memproxy.errors import (
    MemproxyError,
    NotFound,
    Overloaded,
    RequestError,
    TooManyRequests,
    Unauthenticated,
    UpstreamTimeout,
)
from memproxy.relay.app import error_response


@pytest.mark.parametrize(
    "kind", [NotFound, Overloaded, RequestError, TooManyRequests, Unauthenticated, UpstreamTimeout]
)
def test_an_error_is_shaped_as_openais(kind: type[MemproxyError]) -> None:
    status, headers, body = error_response(kind("What happened: ü.", param="user", code="why"))
    assert status == kind.status
    assert json.loads(body) == {
        "error": {"message": "What happened: ü.", "type": kind.kind, "param": "user", "code": "why"}
    }
    assert dict(headers)[b"content-length"] == str(len(body)).encode()
    assert dict(headers)[b"content-type"] == b"application/json"


@pytest.mark.parametrize("kind", [Overloaded, TooManyRequests])
def test_a_limit_says_when_to_come_again(kind: type[MemproxyError]) -> None:
    assert dict(error_response(kind("Too much."))[1])[b"retry-after"] == b"1"


def test_a_missing_identity_says_how_to_give_one() -> None:
    assert dict(error_response(Unauthenticated("Who?"))[1])[b"www-authenticate"] == b"Bearer"
