"""Planted mistakes, faults, kills and attacks. Not installed."""
