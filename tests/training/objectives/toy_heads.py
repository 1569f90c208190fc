"""Every head with toy sizes and batches."""

import numpy as np
import tensorflow as tf

from common.contract import schema
from modeling import XLNetConfig

CONFIG = XLNetConfig(
    vocab_size=30,
    d_model=6,
    n_layer=1,
    n_head=2,
    d_head=3,
    d_inner=10,
    dropout=0.0,
    dropatt=0.0,
    mem_len=4,
)
N, T, C, Y = 11, 6, 3, 4
OPTIONS = {
    "classification": {"num_labels": Y},
    "multi_label": {"num_labels": Y},
    "regression": {},
    "span": {"start_n_top": 2, "end_n_top": 3},
    "multiple_choice": {},
    "token_classification": {"num_labels": Y},
}


def examples(head):
    rng = np.random.default_rng(4)
    lead = (N, C, T) if head == "multiple_choice" else (N, T)
    batch = {
        "input_ids": rng.integers(9, 30, lead, np.int32),
        "segment_ids": np.zeros(lead, np.int32),
        "input_mask": np.ones(lead, np.int32),
        "example_weight": np.ones(N, np.float32),
        "example_index": np.arange(N, dtype=np.int32),
    }
    for name, field in schema.HEAD_FIELDS[head].items():
        shape = [{"B": N, "T": T, "Y": Y}[x] for x in field.shape.split()]
        high = {"label_ids": C, "paragraph_mask": 2}.get(name, T)
        if field.dtype == "float32":
            high = 2
        values = rng.integers(0, high, shape)
        if name == "paragraph_mask":
            values[:] = 1
        batch[name] = values.astype(field.dtype)
    return batch


def functions(batch):
    def endless(params):
        data = tf.data.Dataset.from_tensor_slices(batch).repeat()
        return data.batch(params["batch_size"], drop_remainder=True)

    def once(params):
        data = tf.data.Dataset.from_tensor_slices(batch)
        return data.batch(params["batch_size"])  # 8 + 3 rows

    return endless, once
