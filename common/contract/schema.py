"""The batch contract between `data/` and `training/`, `serving/`.

Letters: B batch, T segment length, P predictions per segment, C options of a
multiple-choice example. One table per kind of batch; readers yield exactly
these names, objectives consume them, tests derive from them.

Polarity: `input_mask` 1 = real token, 0 = padding; `perm_mask[b, i, j]` = 1
means that i may NOT attend to j.
"""

from common.heads import HEADS, Field

# Of a candidate whose pieces are hidden and summed (head candidate_ranking).
MOST_PIECES = 24

# Batches of the pretraining reader. In every replica's share the first half of
# the rows is forward and the second half backward when the data are bi_data.
PRETRAIN_BATCH = {
    "input_ids": Field("B T", "int32", "token ids of the content stream"),
    "segment_ids": Field(
        "B T", "int32", "0 = A and reuse part, 1 = B, 2 = CLS"
    ),
    "input_mask": Field("B T", "int32", "1 = real token, 0 = padding"),
    "ranks": Field("B T", "int32", "factorization order: who is seen by whom"),
    "target_positions": Field("B P", "int32", "0 in unused slots"),
    "target_ids": Field("B P", "int32", "ids at `target_positions`"),
    "target_weights": Field("B P", "float32", "1 = counts, 0 = unused slot"),
    "reset_memory": Field("B", "bool", "this row's memory is empty before it"),
    "next_sentence_label": Field("B", "int32", "1 = B really follows A"),
    "row_weight": Field("B", "float32", "0 = padding row of a corpus's end"),
}

# Batches of the language-model reader: streams without document boundaries.
LANGUAGE_MODEL_BATCH = {
    "input_ids": Field("B T", "int32", "token ids"),
    "target_ids": Field("B T", "int32", "the token after each"),
    "target_weights": Field("B T", "float32", "0 = padding at a stream's end"),
    "reset_memory": Field("B", "bool", "this row's memory is empty before it"),
}

# With `--materialize_masks` these two come instead of being derived.
PRETRAIN_MATERIALIZED = {
    "perm_mask": Field("B T T", "int32", "1 = i may not attend to j"),
    "target_mapping": Field("B P T", "float32", "one-hot rows; zero = unused"),
}

# Every fine-tuning batch.
FINETUNE_BATCH = {
    "input_ids": Field("B T", "int32", "token ids"),
    "segment_ids": Field("B T", "int32", "segment ids"),
    "input_mask": Field("B T", "int32", "1 = real token, 0 = padding"),
    "example_weight": Field("B", "float32", "0 = row that pads the last batch"),
    "example_index": Field("B", "int32", "position in input order"),
}

# Arrays of a fine-tuning batch whose last dimension is T.
LENGTH_FIELDS = (
    *("input_ids", "segment_ids", "input_mask", "paragraph_mask", "ranks"),
)

# What each fine-tuning head adds: the rows of `common.heads`.
HEAD_FIELDS = {
    name: row.fields for name, row in HEADS.items() if name != "pretraining"
}
# `multiple_choice` arrays of FINETUNE_BATCH with a T are [B, C, T]. Labels and
# positions are absent when a batch is made for prediction only.
