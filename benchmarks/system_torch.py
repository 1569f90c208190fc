"""Hugging Face's XLNet in PyTorch, eager or under `torch.compile`.

Runs in an environment of `requirements-bench.txt`; imports no TensorFlow.
"""

import os

import numpy as np
import torch
import transformers

from benchmarks import workloads
from benchmarks.workloads import Workload

LEARNING_RATE, WEIGHT_DECAY, CLIP = 1e-5, 0.01, 1.0


def config(w: Workload, pretrain: bool) -> transformers.XLNetConfig:
    """The peer's configuration of the workload's sizes."""
    return transformers.XLNetConfig(
        vocab_size=w.vocab,
        d_model=w.width,
        n_layer=w.layers,
        n_head=w.heads,
        d_inner=w.inner,
        ff_activation="gelu",
        untie_r=True,
        attn_type="bi",
        dropout=w.dropout,
        mem_len=w.memory if pretrain else None,
        reuse_len=w.reuse if pretrain else None,
        bi_data=pretrain,
        summary_type="last",
        num_labels=w.labels,
    )


def build(workload: Workload, options: dict):
    """A step function of the workload; `options`: compile."""
    torch.manual_seed(workload.seed)
    torch.set_num_threads(os.cpu_count() or 1)
    wrap = torch.compile if options.get("compile") else lambda f: f
    makers = {
        "pretrain": _pretrain,
        "finetune": _finetune,
        "inference": _inference,
    }
    return makers[workload.kind](workload, wrap)


def _optimizer(model):
    return torch.optim.AdamW(
        model.parameters(),
        lr=LEARNING_RATE,
        weight_decay=WEIGHT_DECAY,
        fused=True,
    )


def _tensors(batch: dict) -> dict:
    return {
        k: torch.from_numpy(
            v.astype(np.int64 if v.dtype.kind in "iub" else np.float32)
        )
        for k, v in batch.items()
    }


def _update(model, optimizer, loss) -> float:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return loss.item()


def _pretrain(w: Workload, wrap):
    model = transformers.XLNetLMHeadModel(config(w, True))
    model.train()
    optimizer = _optimizer(model)
    arrays = workloads.pretrain_batch(w)
    batch = _tensors(arrays | workloads.explicit_masks(arrays, w.length))
    call = wrap(model)
    state = {
        "mems": [
            torch.zeros([w.memory, w.batch, w.width]) for _ in range(w.layers)
        ]
    }

    def step():
        out = call(
            input_ids=batch["input_ids"],
            token_type_ids=batch["segment_ids"],
            perm_mask=batch["perm_mask"],
            target_mapping=batch["target_mapping"],
            labels=batch["target_ids"],
            mems=state["mems"] if w.memory else None,
            use_mems=bool(w.memory),
        )
        if w.memory:
            state["mems"] = [m.detach() for m in out.mems]
        return _update(model, optimizer, out.loss)

    return step


def _finetune(w: Workload, wrap):
    model = transformers.XLNetForSequenceClassification(config(w, False))
    model.train()
    optimizer = _optimizer(model)
    batch = _tensors(workloads.finetune_batch(w))
    call = wrap(model)

    def step():
        out = call(
            input_ids=batch["input_ids"],
            token_type_ids=batch["segment_ids"],
            attention_mask=batch["input_mask"],
            labels=batch["label_ids"],
            use_mems=False,
        )
        return _update(model, optimizer, out.loss)

    return step


def _inference(w: Workload, wrap):
    model = transformers.XLNetForSequenceClassification(config(w, False))
    model.eval()
    batch = _tensors(workloads.finetune_batch(w))
    call = wrap(model)

    def step():
        with torch.inference_mode():
            out = call(
                input_ids=batch["input_ids"],
                token_type_ids=batch["segment_ids"],
                attention_mask=batch["input_mask"],
                labels=batch["label_ids"],
                use_mems=False,
            )
        return out.loss.item()

    return step
