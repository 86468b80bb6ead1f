"""What happens to memories with time: retrievals are counted, what expired or is over the limit is pruned, and what was
deleted is dropped from the files. All of it behind the answers.
"""
