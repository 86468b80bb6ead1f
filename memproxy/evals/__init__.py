"""Evaluation and benchmarks through the product's own code path."""
