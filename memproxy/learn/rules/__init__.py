"""Facts from plain statements, with no model at all (``learn.mode: verbatim``).

`own_words` cuts what the user says himself into sentences and clauses; `statements` lays the table of statements, which
is data, over a clause. `reader` reads a whole message; `corrections` finds in what was stated before what a plain
correction ("no, it's 15k", "Lyon, not Paris") or a plain retraction ("I no longer work there", "forget my address") is
about. What fits nothing is not learned: its message is recalled word for word anyway.
"""

VERSION = "rules/9"  # name and version of the rules, noted with each memory as its extractor
