"""From a request's last messages to the block that is injected; `pipeline` has the steps in order.

1. `rewrite` completes a vague message, `query` says what is read in it.
2. A store finds candidates by vector and by words; `documents` says what of a memory is searched. `listed` has what is
   given without a search, `topics` the answer to "What do you know about me?".
3. `ranking` puts them side by side (`candidate_table`, over what `reading` keeps of each and `word_index` looks up);
   `stages` make columns of them, `recipes` say what each is worth, `scores` how likely each
   candidate is right, and `later_statements` what replaced it.
4. `links` follows relations of stored facts, `former` brings what held before, `rerank` asks a model.
5. `select` says which may be given and why others may not, `assemble` writes the
   block, `answer` tells of it. All of it is within one `deadline`.
"""
