"""Attacks on isolation: random callers and forged calls against the real server, and web pages in a real browser."""
