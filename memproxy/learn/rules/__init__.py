"""Facts from plain statements, with no model at all (``learn.mode: verbatim``).

`said` cuts what the user says himself into sentences and clauses; `table` holds the statements that are read, as data;
`statements` lays the table over a clause. `known` is what was stated before; `changes` and `retractions` find in it
what a plain correction ("no, it's 15k", "Lyon, not Paris") or a plain retraction ("I no longer work there", "forget my
address") is about. What fits nothing is not learned: its message is recalled word for word anyway.
"""

from memproxy.learn.candidates import Read, Window

VERSION = "rules/9"
"""Name and version of the rules, for whoever notes which extractor a memory is from."""


def extract(window: Window) -> Read:
    """The candidates of a window's new turns, each with a verbatim sentence as evidence. Pure; takes any text.

    The first call compiles the table, which no start needs to wait for.
    """
    from memproxy.learn.rules.reader import read  # noqa: PLC0415 - see above

    return read(window)
