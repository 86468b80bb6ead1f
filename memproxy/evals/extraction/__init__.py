"""`memproxy eval extraction`: dialogues of known content go through the product, and what is stored is judged.

`dialogues` reads them with their gold, `running` pushes them through a worker over a throw-away store, `judging` lays
what is stored beside the gold, `figures` counts, `showing` prints.
"""
