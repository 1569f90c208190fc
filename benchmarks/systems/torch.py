"""Hugging Face's encoders in PyTorch, eager or under `torch.compile`.

Runs in an environment of `requirements-bench.txt`; imports no TensorFlow.
"""

import numpy as np
import torch
import transformers

from benchmarks.systems import torch_setup, workloads
from benchmarks.systems.workloads import Workload

about = torch_setup.about
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


def classifier(w: Workload):
    """The peer's classifier of the workload's encoder and sizes."""
    if w.model_type == "xlnet":
        return transformers.XLNetForSequenceClassification(config(w, False))
    sizes = dict(
        vocab_size=w.vocab,
        hidden_size=w.width,
        num_hidden_layers=w.layers,
        num_attention_heads=w.heads,
        intermediate_size=w.inner,
        max_position_embeddings=max(512, w.length),
        num_labels=w.labels,
    )
    rates = dict(
        hidden_dropout_prob=w.dropout, attention_probs_dropout_prob=w.dropout
    )
    if w.model_type == "bert":
        built = transformers.BertConfig(**sizes, **rates)
        return transformers.BertForSequenceClassification(built)
    if w.model_type == "albert":
        built = transformers.AlbertConfig(
            **sizes, **rates, embedding_size=workloads.ALBERT_EMBEDDING
        )
        return transformers.AlbertForSequenceClassification(built)
    # Without dropout, as ours; its own special ids lie beyond this vocabulary.
    special = {f"{name}_token_id": 1 for name in ("bos", "cls", "eos", "sep")}
    built = transformers.ModernBertConfig(**sizes, **special, pad_token_id=0)
    return transformers.ModernBertForSequenceClassification(built)


def _arguments(w: Workload, batch: dict) -> dict:
    """What a classifier is called with."""
    arguments = {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["input_mask"],
        "labels": batch["label_ids"],
    }
    if w.model_type != "modernbert":  # which knows no segments
        arguments["token_type_ids"] = batch["segment_ids"]
    if w.model_type == "xlnet":
        arguments["use_mems"] = False
    return arguments


def build(workload: Workload, options: dict):
    """A step function of the workload; `options`: compile, precision."""
    torch.manual_seed(workload.seed)
    wrap = torch_setup.wrapper(options)
    makers = {
        "pretrain": _pretrain,
        "finetune": _finetune,
        "inference": _inference,
        "lengths": _lengths,
        "embed": _embed,
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
    model = classifier(w)
    model.train()
    optimizer = _optimizer(model)
    batch = _tensors(workloads.finetune_batch(w))
    call = wrap(model)

    def step():
        out = call(**_arguments(w, batch))
        return _update(model, optimizer, out.loss)

    return step


def _inference(w: Workload, wrap):
    model = classifier(w)
    model.eval()
    batch = _tensors(workloads.finetune_batch(w))
    call = wrap(model)

    def step():
        with torch.inference_mode():
            out = call(**_arguments(w, batch))
        return out.loss.item()

    return step


def _by_length(w: Workload):
    """Batches of like lengths, padded to their longest: (rows, ids, mask)."""
    rows = workloads.texts(w)
    order = np.argsort([len(r) for r in rows], kind="stable")
    for at in range(0, len(order), w.batch):
        chosen = order[at : at + w.batch]
        width = len(rows[chosen[-1]])
        ids = np.zeros([len(chosen), width], np.int64)
        mask = np.zeros([len(chosen), width], np.float32)
        for i, row in enumerate(chosen):
            tokens = rows[row]
            ids[i, width - len(tokens) :] = (
                tokens  # this tokenizer pads on the left
            )
            mask[i, width - len(tokens) :] = 1.0
        yield chosen, torch.from_numpy(ids), torch.from_numpy(mask)


def _lengths(w: Workload, wrap):
    """A pass of the classifier over rows of real lengths."""
    model = transformers.XLNetForSequenceClassification(config(w, False))
    call = wrap(model.eval())

    def step():
        out = np.zeros([w.examples], np.float32)
        for rows, ids, mask in _by_length(w):
            with torch.inference_mode():
                outputs = call(
                    input_ids=ids, attention_mask=mask, use_mems=False
                )
            out[rows] = outputs.logits[:, 0].numpy()
        return float(out.sum())

    return step


def _embed(w: Workload, wrap):
    """Every layer's vectors of texts of real lengths, one after another."""
    model = transformers.XLNetModel(config(w, False))
    call = wrap(model.eval())
    lengths = workloads.row_lengths(w) + 2  # with SEP and CLS, as ours
    starts = np.cumsum([0, *lengths])
    texts = workloads.row_lengths(w)

    def step():
        shape = [w.layers + 1, starts[-1], w.width]
        vectors = np.zeros(shape, np.float32)
        for rows, ids, mask in _by_length(w):
            tail = torch.ones([len(rows), 2])
            with torch.inference_mode():
                out = call(
                    input_ids=torch.cat([ids, tail.long()], 1),
                    attention_mask=torch.cat([mask, tail], 1),
                    output_hidden_states=True,
                    use_mems=False,
                )
            states = torch.stack(out.hidden_states).numpy()
            for i, row in enumerate(rows):
                size = texts[row] + 2
                columns = slice(starts[row], starts[row] + size)
                vectors[:, columns] = states[:, i, -size:]
        return float(vectors[-1].sum())

    return step
