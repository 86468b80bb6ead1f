"""Learning: what was said becomes memories, behind the answer. A reader follows it in this order:

    journal      `worker` claims rows, an owner's in their order, and hands them to their lane
    index        `index`: turns become searchable, and what the API asked for is carried out; needs no model
    extract      `triggers` says when; `learner` takes the new turns of a session; `extract` reads them, by a model or
                 by `rules`; `grounding` keeps what rests on words that were really said
    plan         `plan` decides what each candidate does to what is known (`plan_view`, `nearby`, `core.facts`): exact
                 writes and slot changes, saved by compare-and-set before anything is written
    apply        `apply` carries the plan out; twice is harmless, and nothing comes back that was taken back meanwhile
    flush        `flush`: what was written becomes durable, many rows by one flush
    acknowledge  `acknowledge`: a row is done, refused, parked, or waits until its time comes

A kill between any two of them loses nothing: what was done is done again to no effect. Whatever reads or writes the
store or the state raises `StoreUnavailable` or `StateUnavailable`, and its row is tried again: no docstring repeats it.
`cooperative` lets requests go before learning; `model_outages` and `budget` say when a model may be asked. `summary`
sums up a session that is over, `compress` makes the state that stands for a long history.
"""
