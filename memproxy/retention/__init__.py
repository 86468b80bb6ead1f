"""What happens to memories with time: retrievals are counted, what expired or is over the limit is pruned, and what was
deleted is dropped from the files. No answer waits for any of it.
"""
