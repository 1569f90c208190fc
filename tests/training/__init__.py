"""Tests of `training`; most train the toy objective."""

from tests.helpers.runs import toy

__all__ = ["toy"]
