"""Command: our outputs against Hugging Face's on the same weights.

    python -m benchmarks.compare.parity /path/to/bench-env/bin/python

The peer makes random weights, saves them in its format and answers a batch
with memory, permutation mask and targets; we read its folder and answer the
same. Prints one JSON line with the largest differences.
"""

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
    if len(sys.argv) != 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(
            "error: wanted the Python of an environment with "
            f"requirements-bench.txt, found {sys.argv[1:]}"
        )
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.argv[1], "-m", "benchmarks.systems.torch_reference", folder],
            check=True,
            stdout=sys.stderr,
        )
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
