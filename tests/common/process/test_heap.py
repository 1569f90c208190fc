"""Freed memory goes back to the system."""

import ctypes
import sys

import pytest

from common.process import heap


def resident() -> int:
    """Pages of this process, kB."""
    with open("/proc/self/status") as lines:
        return next(int(x.split()[1]) for x in lines if x.startswith("VmRSS"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_the_c_library_keeps_goes_back():
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    if not hasattr(library, "malloc_trim"):
        pytest.skip("not glibc")
    size = 2**16  # small enough for the heap
    blocks = [library.malloc(size) for _ in range(1600)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks[:-1]:  # the last one holds the heap's end
        library.free(block)
    before = resident()
    heap.trim()
    assert resident() < before - 80_000
    library.free(blocks[-1])


def test_other_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert heap.trim() is None
