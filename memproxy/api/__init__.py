"""The memory API.

Every write is a journal row first (`context.Writer`), then waited for: 201 or 200 when it is applied, 202 with
``x-memproxy-write: queued`` when the store is away (it is applied when the store is back). Reads answer 503 with
``retry-after`` meanwhile.

Where the contract is silent:

- A list shows what is and what was; a search leaves out what was superseded, unless ``active`` or ``as_of`` is given.
- ``as_of`` is about when things held: a message since it was said, a fact within ``valid_from`` and ``valid_to``,
  where it says them. It means the same in lists and searches, and a time is read in the same way in a query string as
  in a body: RFC 3339, or Unix seconds; digits that may as well be a date (20230508) are refused.
- One ``project_id`` (``agent_id``) in a list or search means what a request of that project sees: its memories and
  those of no project. Several mean exactly theirs. A delete takes exactly the project's own.
- ``valid_to`` in the past makes a memory inactive; an expired memory is not there, by id neither. None is stored with
  an ``expires_at`` that is over (400); an edit may end one by it, and an import takes what comes.
- Messages of a conversation are taken as chat takes them: texts are kept, pictures, audio and calls of tools are not.
  ``turn_ids`` has one for each; a message without text is no turn. Two messages of one id in a call must be the same.
  A turn that is known stays as it is: one that comes later under its id with another text (or role) is not stored, and
  the answer, 201 all the same, names the id in ``conflicts``.
- A path is read as it was sent: a percent-encoded slash is part of an id.
- Turns sent without any time are the same turns when sent again: no time is part of their identity then.
- A turn's content cannot be edited. ``session_id`` tells apart two turns of one id when reading or forgetting by id.
- Every request of a known user has a receipt, except one that asked for ``off``; a receipt of another project is
  missing as well.
- Activity tells what learning did and what calls wrote (``reason`` says by which way it came). Statistics and queues
  are the user's alone; costs are the tenant's, for callers with ``admin`` or ``act_as_user``, and null for others.
- The palace shows one level a call: wings, a wing's rooms, a room's closets, a closet's drawers. Memories of no session
  stand in the room ``direct``. Wings and rooms can be named by pointer, wings by any alias ("my dog" for ``biscuit``).
- Entities, timelines and categories are counted over the newest 10,000 memories.
- NUL, lone surrogates, integers outside of -2^63 to 2^63-1 and deep nesting are refused (400), as are unknown fields.
"""
