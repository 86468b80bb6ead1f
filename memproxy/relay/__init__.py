"""Process one: the request, in order. Knows the journal and the engine's address, nothing of recall or learning."""
