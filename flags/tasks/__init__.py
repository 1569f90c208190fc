"""Flags of fine-tuning tasks."""
