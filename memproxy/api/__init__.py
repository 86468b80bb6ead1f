"""The memory API of CONTRACT section 6."""
