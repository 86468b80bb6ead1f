"""The memory page: how it is served, and what people do with it in a real browser."""
