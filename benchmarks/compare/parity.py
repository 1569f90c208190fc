"""Command: our outputs against Hugging Face's on the same weights.

    python -m benchmarks.compare.parity /path/to/bench-env/bin/python

The peer makes random weights, saves them in its format and answers a batch
with memory, permutation mask and targets; we read its folder and answer the
same. Prints one JSON line with the largest differences.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

from benchmarks.compare.parity_sizes import PARITY
from benchmarks.systems import workloads
from modeling import PretrainingModel
from modeling.checkpoints.restore import find_config, restore


def ours(folder: str, memory: np.ndarray):
    """Logits [B, P, V] and new memory [L, M, B, D] of the restored model."""
    config = find_config(folder).replace(
        mem_len=PARITY.memory, reuse_len=PARITY.reuse
    )
    model = PretrainingModel(config)
    restore(model, folder)
    batch = workloads.pretrain_batch(PARITY)
    masks = workloads.explicit_masks(batch, PARITY.length)

    @tf.function(autograph=False)
    def run():
        out = model(
            batch["input_ids"],
            segment_ids=batch["segment_ids"],
            ranks=tf.constant(batch["ranks"]),
            is_target=masks["is_target"],
            target_positions=batch["target_positions"],
            memory=tuple(tf.constant(m.transpose(1, 0, 2)) for m in memory),
            bi_data=True,
        )
        return model.lm_logits(out.query_output), tf.stack(out.new_memory)

    logits, new_memory = run()
    return logits.numpy(), new_memory.numpy().transpose(0, 2, 1, 3)


def main() -> None:
    """Compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    wanted = "the Python of an environment with requirements-bench.txt"
    parser.add_argument("python", help=wanted)
    python = parser.parse_args().python
    if not os.path.isfile(python) or not os.access(python, os.X_OK):
        parser.error(f"wanted {wanted}, found {python}")
    with tempfile.TemporaryDirectory() as folder:
        peer = subprocess.run(
            [python, "-m", "benchmarks.systems.torch_reference", folder],
            stdout=sys.stderr,
        )
        if peer.returncode:
            sys.exit(f"error: {python} made no outputs: its line is above")
        theirs = np.load(os.path.join(folder, "outputs.npz"))
        logits, memory = ours(folder, theirs["memory"])
    print(
        json.dumps(
            {
                "largest_logit": float(np.abs(theirs["logits"]).max()),
                "logit_difference": float(
                    np.abs(logits - theirs["logits"]).max()
                ),
                "memory_difference": float(
                    np.abs(memory - theirs["new_memory"]).max()
                ),
            }
        )
    )


if __name__ == "__main__":
    main()
