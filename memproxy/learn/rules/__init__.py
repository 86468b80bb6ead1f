"""Facts from conversations by rules, with no model at all (``learn.mode: verbatim``).

What the user states about himself and his world is read sentence by sentence (`said`, `clauses`); patterns with
builders make candidates of clauses (`people`, `home`, `work`, `tastes`, ..., each a table of rules), of which only
those remain that are `admissible` and `sound`. `corrections` and `retractions` find what they are about in a `ledger`
of what was stated before, also where nothing marks a change (`frames`) or only a value is said (`meant`) or put right
(`repairs`, `recovered`), where one value of its kind gives way to another (`turnover`, `contrasts`), where a known
taste `turned` or a known statement is `gainsaid`, or where something ended in words of its own (`called_off`). A value
that names nothing is of what the words around it bring up (`spheres`); what was taken back is told anew with another
value, and somebody near is elsewhere now (`continued`). What holds until a day ends with it (`bounded`). What
a question takes for granted is stated too (`presupposed`), and "Mum's 79" is said of "my mum" (`unmarked`). Precision
comes before recall: a sentence that fits no pattern says nothing.
English; a few sure forms in German, Spanish and French (`foreign`), and what takes those back (`foreign_changes`).
"""

from memproxy.learn.candidates import Read, Window

VERSION = "rules/8"
"""Name and version of the rules, for whoever notes which extractor a memory is from."""


def extract(window: Window) -> Read:
    """The candidates of a window's new turns, each with a verbatim sentence as evidence. Pure; takes any text.

    The first call reads in the rules (half a second of patterns), which no start needs to wait for.
    """
    from memproxy.learn.rules.reader import read  # noqa: PLC0415 - see above

    return read(window)
