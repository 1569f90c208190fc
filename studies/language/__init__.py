"""Studies of language models: memory, baselines, attention."""
