"""What memory this process may still take, and what limits it."""

import os
import resource

from common.errors import UserError

GIB = 1 << 30
# TensorFlow and its libraries: address space and memory once loaded. They take
# 2.3 GiB; with 2.5 GiB run_classifier.py ended by a signal at its first threads.
_LOADED_SPACE, _LOADED = 2.6 * GIB, 0.4 * GIB
_SMALL_JSON = 1 << 24  # bytes; they become 0.5 GiB at most
# What Python makes of a sign of JSON, at most, in bytes: a dictionary, a list,
# an entry of either, half a string.
_OF_JSON = {"{": 240, "[": 104, ":": 100, ",": 34, '"': 30}


def room() -> tuple[float, str]:
    """(bytes that this process may still take, what limits it)."""
    limits = [(float("inf"), "nothing")]
    for kind, name in (
        (resource.RLIMIT_AS, "ulimit -v"),
        (resource.RLIMIT_DATA, "ulimit -d"),
    ):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            field = "VmSize" if kind == resource.RLIMIT_AS else "VmData"
            used = _fields("/proc/self/status").get(field, 0)
            limits.append((limit - used, name))
    group = _group_room()
    if group is not None:
        limits.append((group, "the memory limit of the container (cgroup)"))
    machine = _fields("/proc/meminfo")
    if "MemAvailable" in machine:
        free = machine["MemAvailable"] + machine.get("SwapFree", 0)
        limits.append((free, "the machine"))
    left, name = min(limits)
    return max(0.0, left), name


def check_libraries() -> None:
    """UserError where TensorFlow, not yet loaded, would end by a signal."""
    left, name = room()
    wanted = _LOADED_SPACE if name.startswith("ulimit") else _LOADED
    if left < wanted:
        raise UserError(
            f"out of memory: TensorFlow needs {wanted / GIB:.1f} GiB to be "
            f"loaded, {name} leaves {left / GIB:.1f} GiB: raise the limit"
        )


def check_json(content: bytes | str, path: str) -> None:
    """UserError before JSON is parsed that would not fit: it grows 30 times."""
    if len(content) < _SMALL_JSON:
        return

    def count(sign: str) -> int:
        if isinstance(content, str):
            return content.count(sign)
        return content.count(sign.encode())

    plain = content.isascii() and not count("\\u")
    wanted = len(content) * (2 if plain else 8)
    wanted += sum(size * count(sign) for sign, size in _OF_JSON.items())
    left, name = room()
    if wanted > left:
        raise UserError(
            f"out of memory: {path}: its JSON may become {wanted / GIB:.1f} "
            f"GiB, {name} leaves {left / GIB:.1f} GiB: give several smaller "
            "files, or more memory"
        )


def _fields(path: str) -> dict[str, int]:
    """Name -> bytes of a table of /proc; empty where there is none."""
    sizes = {}
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            for line in f:
                name, _, value = line.partition(":")
                if value.endswith("kB\n"):
                    sizes[name] = 1024 * int(value.split()[0])
    except OSError:
        pass
    return sizes


def _group_room(root: str = "/sys/fs/cgroup") -> float | None:
    """What the groups of this process leave; None without a limit."""
    try:
        with open("/proc/self/cgroup", encoding="ascii") as f:
            lines = [line.rstrip("\n").split(":", 2) for line in f]
    except OSError:
        return None
    rooms = []
    for _, kinds, path in lines:
        if kinds and "memory" not in kinds.split(","):
            continue
        memory_root = os.path.join(root, "memory") if kinds else root
        names = ("memory.max", "memory.current")
        if kinds:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        parts = path.strip("/").split("/")
        for count in range(len(parts) + 1):
            folder = os.path.join(memory_root, *parts[:count])
            rooms.append(_left(folder, *names))
    return min((left for left in rooms if left is not None), default=None)


def _left(folder: str, limit_name: str, used_name: str) -> float | None:
    try:
        with open(os.path.join(folder, limit_name), encoding="ascii") as f:
            limit = f.read().strip()
        with open(os.path.join(folder, used_name), encoding="ascii") as f:
            used = int(f.read())
    except (OSError, ValueError):
        return None
    if not limit.isdigit() or int(limit) >= 1 << 60:
        return None
    return int(limit) - max(0, used - _cached(folder))


def _cached(folder: str) -> int:
    """Bytes of files that the system gives back when they are wanted."""
    names = ("inactive_file", "active_file")
    try:
        with open(os.path.join(folder, "memory.stat"), encoding="ascii") as f:
            rows = dict(line.split() for line in f)
    except (OSError, ValueError):
        return 0
    return sum(int(rows.get(name, 0)) for name in names)
