"""The wire formats: chat completions, server-sent events, splicing into raw JSON, error bodies. No I/O."""
