"""Memory for agents by the Model Context Protocol: the same tools over HTTP (`endpoint`, at ``/mcp``) and over standard
input and output (``memproxy mcp``). Each tool is one call of the memory API, with its identity, checks and permissions.
"""
