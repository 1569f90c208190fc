"""The systems that are timed side by side."""
