"""The process: memory, signals, terminal, workers."""
