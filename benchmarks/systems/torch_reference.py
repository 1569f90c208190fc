"""Command: Hugging Face's outputs on random weights, for `benchmarks.compare.parity`.

    python -m benchmarks.systems.torch_reference FOLDER

Runs in an environment of requirements-bench.txt; writes the model's folder and
`outputs.npz` into FOLDER.
"""

import argparse
import os
import sys

import numpy as np

from benchmarks.compare.parity_sizes import PARITY
from benchmarks.systems import workloads


def main() -> None:
    """Saves a model and what it answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="receives model and outputs.npz")
    folder = parser.parse_args().folder
    try:
        import torch
        import transformers
    except ImportError as e:
        sys.exit(
            f"error: wanted an environment of requirements-bench.txt, found {e}"
        )
    from benchmarks.systems.torch import config

    torch.manual_seed(PARITY.seed)
    model = transformers.XLNetLMHeadModel(config(PARITY, True)).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "layer_norm" not in name:
                p.normal_(0.0, 0.05)
    batch = workloads.pretrain_batch(PARITY)
    masks = workloads.explicit_masks(batch, PARITY.length)
    random = np.random.default_rng(PARITY.seed)
    shape = [PARITY.memory, PARITY.batch, PARITY.width]
    memory = random.normal(size=[PARITY.layers, *shape]).astype(np.float32)
    with torch.inference_mode():
        out = model(
            input_ids=torch.from_numpy(batch["input_ids"].astype(np.int64)),
            token_type_ids=torch.from_numpy(
                batch["segment_ids"].astype(np.int64)
            ),
            perm_mask=torch.from_numpy(masks["perm_mask"]),
            target_mapping=torch.from_numpy(masks["target_mapping"]),
            mems=list(torch.from_numpy(memory)),
            use_mems=True,
        )
    model.save_pretrained(folder)
    np.savez(
        os.path.join(folder, "outputs.npz"),
        logits=out.logits.numpy(),
        memory=memory,
        new_memory=np.stack([m.numpy() for m in out.mems]),
    )


if __name__ == "__main__":
    main()
