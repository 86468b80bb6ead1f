"""The demonstration: a scripted model server and the sessions that talk to it through the real proxy."""
