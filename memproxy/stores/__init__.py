"""Memory stores and state stores behind the ports."""
