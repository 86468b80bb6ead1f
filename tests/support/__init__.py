"""Helpers of the tests: scripted upstreams, running proxies, shared data, deadlines."""
