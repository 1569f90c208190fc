"""Flags of exports, predictions and the server."""
