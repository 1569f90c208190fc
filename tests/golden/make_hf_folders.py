"""Writes the tiny Hugging Face folders beside this file, with their outputs.

Needs requirements-bench.txt: `python -m tests.golden.make_hf_folders FOLDER`.
Each folder has `config.json`, `model.safetensors` and `outputs.npz` (inputs as
`in/NAME`, what the PyTorch model gave as `out/NAME`).
"""

import os
import sys

import numpy as np
import torch
import transformers

B, T, P, C, S, E = 3, 7, 2, 2, 3, 2
SIZES = dict(
    vocab_size=29,
    d_model=12,
    n_layer=2,
    n_head=3,
    d_inner=20,
    dropout=0.0,
    summary_last_dropout=0.0,
)


def make(folder: str, name: str, **changes) -> None:
    """Writes one folder: random weights, inputs and outputs."""
    kind, extra = CASES[name]
    config = transformers.XLNetConfig(**(SIZES | extra | changes))
    torch.manual_seed(len(name))
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for key, parameter in sorted(model.named_parameters()):
            torch.nn.init.normal_(parameter, std=0.3)
            if "norm.weight" in key.lower():
                parameter.add_(1.0)
    model.save_pretrained(folder)
    inputs = _inputs(name)
    tensors = {k: torch.tensor(v) for k, v in inputs.items()}
    with torch.no_grad():
        if name == "lm":
            outputs = _two_segments(model, tensors)
        else:
            outputs = model(**tensors)
            outputs = {
                k: v.numpy()
                for k, v in outputs.items()
                if isinstance(v, torch.Tensor)
            }
    np.savez_compressed(
        os.path.join(folder, "outputs.npz"),
        **{f"in/{k}": v for k, v in inputs.items()},
        **{f"out/{k}": v for k, v in outputs.items()},
    )


def _two_segments(model, tensors):
    """The second segment sees the memory of the first."""
    ids = tensors.pop("first_ids")
    first = model(input_ids=ids, use_mems=True)
    second = model(mems=first.mems, use_mems=True, **tensors)
    return {"logits": second.logits.numpy()}


def _inputs(name):
    rng = np.random.default_rng(len(name))
    lead = (B, C) if name == "multiple_choice" else (B,)
    mask = np.ones([*lead, T], np.float32)
    mask[0, ..., :3] = 0  # left padding
    found = {
        "input_ids": rng.integers(0, 29, [*lead, T]),
        "token_type_ids": rng.integers(0, 3, [*lead, T]),
        "attention_mask": mask,
    }
    if name == "lm":
        del found["attention_mask"]
        found["first_ids"] = rng.integers(0, 29, [B, T])
        found["perm_mask"] = (rng.random([B, T, T]) < 0.4).astype(np.float32)
        where = np.stack([rng.permutation(T)[:P] for _ in range(B)])
        found["perm_mask"][np.arange(B)[:, None], where, where] = 1
        found["target_mapping"] = np.eye(T, dtype=np.float32)[where]
    if name == "span":
        p_mask = np.ones([B, T], np.float32)
        p_mask[:, 3:6] = 0
        found["p_mask"] = p_mask
        found["cls_index"] = np.full([B], T - 1)
    return found


CASES = {
    "lm": ("XLNetLMHeadModel", dict(mem_len=5, reuse_len=4)),
    "classification": (
        "XLNetForSequenceClassification",
        dict(num_labels=4, ff_activation="gelu_new"),
    ),
    "span": (
        "XLNetForQuestionAnswering",
        dict(start_n_top=S, end_n_top=E, clamp_len=3),
    ),
    "multiple_choice": ("XLNetForMultipleChoice", dict(ff_activation="relu")),
    "token_classification": (
        "XLNetForTokenClassification",
        dict(num_labels=5),
    ),
}


if __name__ == "__main__":
    for case in CASES:
        target = os.path.join(sys.argv[1], f"hf_{case}")
        os.makedirs(target, exist_ok=True)
        make(target, case)
