"""Chooses what stands behind each port: the only room that names concrete stores and models.

One module a process, so that each loads only what it uses (the relay starts in half a second and stays small).
"""
