"""Process two: the routes by which the relay and the memory API reach recall, learning and the store."""
