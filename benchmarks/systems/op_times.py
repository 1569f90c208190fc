"""Thread time of the operations of a step, from TensorFlow's profiler."""

import collections
import glob
import re
import tempfile
import time

import tensorflow as tf

# Where it lies is no part of the public interface; TensorFlow 2.20 has no other
# reader of a trace without the TensorBoard plugin.
from tensorflow.tsl.profiler.protobuf import xplane_pb2

STEPS = 3
# An operation's event is `name:Type`; the executor's own are `Class::Method`.
# Those that run asynchronously, compiled functions above all, have the
# executor's event alone.
COMPILED = "ProcessAsync"
_OPERATION = re.compile(
    rf"[^:]+:([A-Za-z_]\w*)|ExecutorState::({COMPILED})::Start"
)
_MS = 1e9  # picoseconds of one
# An event ends after the step has its result; seconds for those of the last one.
_LAST_EVENTS = 0.2


def traced(step, steps: int = STEPS) -> dict[str, list[float]]:
    """Traces steps and sums up their operations by type.

    An operation that runs others (a loop, a call) has its own time only.

    Args:
      step: runs one step; was called before, so that nothing is compiled.
      steps: how many are traced.

    Returns:
      Type of operation -> [calls, milliseconds] of one step, over all threads.
      With more threads than cores an operation's time includes its waits.
    """
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0
    )
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options=options)
        try:
            for _ in range(steps):
                step()
            time.sleep(_LAST_EVENTS)
        finally:
            tf.profiler.experimental.stop()
        paths = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        space = xplane_pb2.XSpace()
        for path in paths:
            with open(path, "rb") as f:
                space.MergeFromString(f.read())
    total = collections.defaultdict(lambda: [0.0, 0.0])
    for plane in space.planes:
        if plane.name.startswith("/host:CPU"):
            for line in plane.lines:
                for name, picoseconds in _own_times(plane, line):
                    total[name][0] += 1 / steps
                    total[name][1] += picoseconds / _MS / steps
    return {name: list(values) for name, values in sorted(total.items())}


def _own_times(plane, line):
    """(type, picoseconds without the operations inside) of a thread's events."""
    spans = []
    for event in line.events:
        found = _OPERATION.fullmatch(
            plane.event_metadata[event.metadata_id].name
        )
        if found:
            name = found[1] or found[2]
            spans.append((event.offset_ps, event.duration_ps, name))
    # The outer one of two that begin together comes first.
    spans.sort(key=lambda span: (span[0], -span[1]))
    stack = []  # [type, end, own time] of the operations that still run
    for start, duration, name in spans:
        while stack and stack[-1][1] <= start:
            yield stack[-1][0], stack.pop()[2]
        if stack:
            stack[-1][2] -= duration
        stack.append([name, start + duration, duration])
    while stack:
        yield stack[-1][0], stack.pop()[2]
