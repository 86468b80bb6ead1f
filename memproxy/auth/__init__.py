"""Identity: from a request's headers and fields to tenant and user. Used by relay and engine."""
