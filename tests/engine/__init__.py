"""The engine: its parts and its routes."""
