"""The proxy that the tests of one module share, and its upstream."""

from tests.e2e.conftest import model, shared_proxy, shared_upstream

__all__ = ["model", "shared_proxy", "shared_upstream"]
