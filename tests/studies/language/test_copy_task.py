"""A key is recalled as far back as a model sees, and no further."""

import numpy as np
import pytest

from studies.language import copy_task


def test_the_text_asks_for_the_key_of_its_block():
    task = copy_task.Task(block=11, segment=4, rows=3)
    ids, gaps = copy_task.text(task, 30, seed=4)
    goals = copy_task.answers(ids, gaps)
    line, gap, goal = (
        x.swapaxes(0, 1).reshape(3, -1) for x in (ids, gaps, goals)
    )
    assert gap.max() == 10
    for row in range(3):
        for place in np.flatnonzero(gap[row]):
            assert line[row, place] == task.vocab_size - 1
            key = place - gap[row, place]
            assert line[row, key] == goal[row, place] < task.keys
            between = line[row, key + 1 : place]
            assert (between >= task.keys).all()


@pytest.mark.slow
def test_recall_ends_where_sight_ends():
    task = copy_task.Task(eval_steps=60)
    chance, memory = 1 / task.keys, 16
    found = copy_task.accuracy_by_gap(task, memory, "relative")
    assert found[1 : memory + 1].min() > 0.97
    assert found[memory + 1 :].max() < chance + 0.15
    assert found[memory + 1 :].mean() < chance + 0.05
    task = copy_task.Task(eval_steps=60, block=16, steps=250)
    vanilla = copy_task.accuracy_by_gap(task, 0, "absolute")
    assert vanilla[1] > 0.6  # the key lies in seven of eight segments
    assert vanilla[task.segment :].max() < chance + 0.15
    assert vanilla[task.segment :].mean() < chance + 0.05
