"""The answering and judging stages of LongMemEval and LoCoMo (``--qa``): what a model makes of what was recalled."""
