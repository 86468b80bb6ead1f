"""The memory API, over real sockets, stores and state."""
