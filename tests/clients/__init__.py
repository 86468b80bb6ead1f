"""Real clients before the real proxy: `make test-clients` (docs/conformance.md)."""
