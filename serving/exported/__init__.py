"""Exported models from outside: graphs that may run, rows in, answers out."""
