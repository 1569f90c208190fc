"""Flags of training, of all tasks."""
