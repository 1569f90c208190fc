"""Thread time by type of operation, of steps whose operations are known."""

import tensorflow as tf

from benchmarks.systems import op_times

SIDE = 160


def products(count, compiled):
    """A step: `count` products of changing matrices, one compiled sum."""
    start = tf.Variable(tf.random.stateless_normal([SIDE, SIDE], (3, 5)) / SIDE)

    @tf.function(jit_compile=True, autograph=False)
    def fused(x):
        return tf.tanh(x) * 2.0 + 1.0

    @tf.function(autograph=False)
    def step():
        x = start.read_value()
        for _ in range(count):
            x = x @ start
        return tf.reduce_sum(fused(x) if compiled else x)

    step()
    return step


def test_every_call_of_a_step_is_counted():
    found = op_times.traced(products(3, compiled=False), steps=2)
    calls, ms = next(v for k, v in found.items() if "MatMul" in k)
    assert calls == 3
    assert ms > 0
    assert op_times.COMPILED not in found


def test_a_compiled_function_is_counted():
    found = op_times.traced(products(2, compiled=True), steps=3)
    calls, ms = found[op_times.COMPILED]
    assert calls > 0 and ms > 0


class Line:
    """Events (name, start, duration) of one thread."""

    def __init__(self, *events):
        names = [name for name, _, _ in events]
        self.event_metadata = {i: Named(n) for i, n in enumerate(names)}
        self.events = [
            Event(i, start, duration)
            for i, (_, start, duration) in enumerate(events)
        ]


class Named:
    def __init__(self, name):
        self.name = name


class Event:
    def __init__(self, metadata_id, offset_ps, duration_ps):
        self.metadata_id = metadata_id
        self.offset_ps = offset_ps
        self.duration_ps = duration_ps


def own(*events):
    line = Line(*events)
    return sorted(op_times._own_times(line, line))


def test_an_operation_has_its_own_time_only():
    assert own(
        ("loop/while:While", 0, 100),
        ("loop/a:MatMul", 10, 30),
        ("loop/b:Cast", 50, 20),
        ("c:Add", 100, 7),
    ) == [("Add", 7), ("Cast", 20), ("MatMul", 30), ("While", 50)]


def test_operations_inside_of_operations_count_once():
    found = own(
        ("ExecutorState::ProcessAsync::Start", 0, 60),
        ("f/call:PartitionedCall", 5, 40),
        ("f/g:MatMul", 6, 30),
    )
    assert found == [
        ("MatMul", 30),
        ("PartitionedCall", 10),
        (op_times.COMPILED, 20),
    ]


def test_events_of_the_executor_are_no_operations():
    assert own(("ExecutorState::Process", 0, 9), ("call.1", 2, 3)) == []
