"""What a record of two segments `[reuse | A SEP B SEP CLS]` holds."""

import numpy as np

from data.records.record_format import Feature, RecordFormat, ids_dtype

# Numbers of a record. The bytes are little-endian int32 in this order.
META = np.dtype(
    [
        ("lane", "<i4"),  # number of the lane in its file
        ("segment", "<i4"),  # number of the segment in its lane
        ("flags", "<i4"),
        ("reuse_tokens", "<i4"),  # in the reuse part, the rest is padding
        ("a_tokens", "<i4"),
        ("b_tokens", "<i4"),
        ("label", "<i4"),  # 1 = B really follows A
        ("targets", "<i4"),  # used target slots
    ]
)
FLAG_BACKWARD = 1
FLAG_DOCUMENT = 2  # a document starts in the part that the lane advances by


def make_format(
    seq_len: int,
    num_predict: int,
    vocab_size: int,
    materialize_masks: bool = False,
) -> RecordFormat:
    """The format of the records of one data set.

    Args:
      materialize_masks: with bit-packed masks and target mappings.
    """
    features = [
        Feature("input_ids", ids_dtype(vocab_size), seq_len),
        Feature("meta", META),
        Feature("ranks", "<i2", seq_len),
        Feature("target_positions", "<u2", num_predict),
    ]
    if materialize_masks:
        row = -(-seq_len // 8)
        features += [
            Feature("perm_mask", "u1", seq_len * row),
            Feature("target_mapping", "u1", num_predict * row),
        ]
    return RecordFormat(features)
