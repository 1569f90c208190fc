"""Vocabularies and the handling of text that goes with them."""
