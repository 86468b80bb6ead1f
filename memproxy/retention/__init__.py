"""Memories and time: recalls are counted, what is due is pruned, what was deleted leaves the files."""
