"""From captured turns to memories: triggers, worker, extraction, reconciliation, apply."""
