"""Fits what the package ships as data: the weights of recall, of message kinds and of what tells something."""
