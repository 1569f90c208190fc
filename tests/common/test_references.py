"""Objects by name, and names of a package that are imported on demand."""

import collections
import json

import pytest

from common import references


def test_a_module_or_one_of_its_names():
    assert references.resolve("json") is json
    assert references.resolve("collections:Counter") is collections.Counter
    with pytest.raises(AttributeError, match="nothing"):
        references.resolve("json:nothing")
    with pytest.raises(ModuleNotFoundError):
        references.resolve("no_such_module:name")


def test_a_package_knows_its_own_names_alone():
    find = references.on_demand("toy", {"Counter": "collections"})
    assert find("Counter") is collections.Counter
    with pytest.raises(AttributeError, match="'toy' has no attribute 'deque'"):
        find("deque")
