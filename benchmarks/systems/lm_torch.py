"""Transformer-XL in PyTorch, written from its equations, to be timed.

Section 3 of the paper with the memory, the relative positions and the adaptive
softmax of its released settings; nothing of the release itself. Under
`torch.compile` as a whole; the tail clusters, whose sizes only the targets
tell, are where its graph breaks. Runs in an environment of
`requirements-bench.txt`; imports no TensorFlow.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.systems import torch_setup, workloads
from benchmarks.systems.workloads import Workload

about = torch_setup.about
LEARNING_RATE, CLIP = 2.5e-4, 0.25


def sinusoids(keys: int, width: int) -> torch.Tensor:
    """Encodings of the distances K - 1, .., 0: [K, D]."""
    distances = torch.arange(keys - 1, -1, -1.0)
    frequencies = 10000.0 ** (-torch.arange(0.0, width, 2.0) / width)
    angles = distances[:, None] * frequencies  # [K, D/2]
    return torch.cat([angles.sin(), angles.cos()], -1)


def shift(x: torch.Tensor) -> torch.Tensor:
    """[B, N, T, K] by distance -> by key: row i moves T - 1 - i to the left."""
    b, n, t, k = x.shape
    x = functional.pad(x, (1, 0)).view(b, n, k + 1, t)
    return x[:, :, 1:].view(b, n, t, k)


class Layer(nn.Module):
    """h' = FF(attention(h; [memory, h])), both with residual and LayerNorm."""

    def __init__(self, w: Workload):
        super().__init__()
        self.heads, self.size = w.heads, w.head_size
        inside = w.heads * w.head_size
        self.q, self.r = (
            nn.Linear(w.width, inside, bias=False) for _ in range(2)
        )
        self.kv = nn.Linear(w.width, 2 * inside, bias=False)
        self.o = nn.Linear(inside, w.width, bias=False)
        self.up = nn.Linear(w.width, w.inner)
        self.down = nn.Linear(w.inner, w.width)
        self.norms = nn.ModuleList(nn.LayerNorm(w.width) for _ in range(2))
        self.drop = nn.Dropout(w.dropout)
        self.u, self.v = (
            nn.Parameter(0.02 * torch.randn(w.heads, w.head_size))
            for _ in range(2)
        )

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """[..., N * H] -> [..., N, H]."""
        return x.unflatten(-1, (self.heads, self.size))

    def forward(self, h, memory, positions, mask):
        """h [B, T, D], memory [B, M, D], positions [K, D] -> [B, T, D]."""
        keys, values = self.kv(torch.cat([memory, h], 1)).chunk(2, -1)
        q, k, v = map(self.split, (self.q(h), keys, values))
        r = self.split(self.r(positions))  # [K, N, H]
        content = torch.einsum("btnh,bknh->bntk", q + self.u, k)
        position = torch.einsum("btnh,knh->bntk", q + self.v, r)
        scores = (content + shift(position)) * self.size**-0.5
        scores = scores.masked_fill(mask, float("-inf"))
        vector = torch.einsum("bntk,bknh->btnh", scores.softmax(-1), v)
        h = self.norms[0](h + self.drop(self.o(vector.flatten(-2))))
        inner = self.drop(functional.relu(self.up(h)))
        return self.norms[1](h + self.drop(self.down(inner)))


class Model(nn.Module):
    """The language model: (ids, targets, memory) -> mean loss, new memory."""

    def __init__(self, w: Workload):
        super().__init__()
        self.w = w
        self.table = nn.Embedding(w.vocab, w.width)
        nn.init.normal_(self.table.weight, std=0.02)
        self.bias = nn.Parameter(torch.zeros(w.vocab))
        tails = len(w.cutoffs)
        self.tail_table = nn.Parameter(0.02 * torch.randn(tails, w.width))
        self.tail_bias = nn.Parameter(torch.zeros(tails))
        self.layers = nn.ModuleList(Layer(w) for _ in range(w.layers))
        self.drop = nn.Dropout(w.dropout)
        keys = w.memory + w.length
        self.register_buffer("positions", sinusoids(keys, w.width))
        ahead = torch.ones(w.length, keys, dtype=torch.bool)
        self.register_buffer("mask", ahead.triu(w.memory + 1))

    def forward(self, ids, targets, memory):
        """ids and targets [B, T], memory L tensors [B, M, D]."""
        h = self.drop(self.table(ids) * self.w.width**0.5)
        positions, kept = self.drop(self.positions), []
        for layer, past in zip(self.layers, memory, strict=True):
            new = torch.cat([past, h], 1)[:, -self.w.memory :]
            kept.append(new.detach())
            h = layer(h, past, positions, self.mask)
        h = self.drop(h).flatten(0, 1)  # [B*T, D]
        return self.loss(h, targets.flatten()), kept

    def loss(self, h, targets):
        """Mean of -log p: the head's entry, then that inside the cluster."""
        cutoffs = self.w.cutoffs
        weight, bias = self.table.weight, self.bias
        if not cutoffs:
            return functional.cross_entropy(
                functional.linear(h, weight, bias), targets
            )
        ends = [*cutoffs, self.w.vocab]
        entry = targets
        for i, (start, end) in enumerate(zip(ends, ends[1:], strict=False)):
            inside = (targets >= start) & (targets < end)
            entry = torch.where(inside, cutoffs[0] + i, entry)
        first = torch.cat([weight[: cutoffs[0]], self.tail_table])
        first_bias = torch.cat([bias[: cutoffs[0]], self.tail_bias])
        total = functional.cross_entropy(
            functional.linear(h, first, first_bias), entry, reduction="sum"
        )
        for start, end in zip(ends, ends[1:], strict=False):
            rows = ((targets >= start) & (targets < end)).nonzero().squeeze(1)
            if len(rows):
                logits = functional.linear(
                    h[rows], weight[start:end], bias[start:end]
                )
                total = total + functional.cross_entropy(
                    logits, targets[rows] - start, reduction="sum"
                )
        return total / len(targets)


def build(workload: Workload, options: dict):
    """A step function of the workload; `options`: compile, precision."""
    w = workload
    torch.manual_seed(w.seed)
    model = Model(w)
    model.train()
    optimizer = torch.optim.Adam(
        model.parameters(), lr=LEARNING_RATE, fused=True
    )
    call = torch_setup.wrapper(options)(model)
    batch = workloads.lm_batch(w)
    ids, targets = (
        torch.from_numpy(batch[name].astype(np.int64))
        for name in ("input_ids", "target_ids")
    )
    state = [torch.zeros(w.batch, w.memory, w.width)] * w.layers

    def step() -> float:
        nonlocal state
        optimizer.zero_grad(set_to_none=True)
        loss, state = call(ids, targets, state)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.item()

    return step
