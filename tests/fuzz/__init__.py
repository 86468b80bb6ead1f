"""Coverage-guided fuzzing of what reads clients' and upstreams' bytes (docs/conformance.md)."""
