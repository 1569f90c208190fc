"""What a record of a token stream holds: tokens, no batch, no length T."""

import numpy as np

from data.records.record_format import Feature, RecordFormat, ids_dtype

# Numbers of a record, little-endian int32 in this order.
META = np.dtype(
    [
        ("block", "<i4"),  # number of the block
        ("record", "<i4"),  # number of the record in its file
        ("tokens", "<i4"),  # used places; all but in the last record of a file
    ]
)


def make_format(record_tokens: int, vocab_size: int) -> RecordFormat:
    """The format of the records of one data set.

    Args:
      record_tokens: tokens of a record, a multiple of 8.
    """
    return RecordFormat(
        [
            Feature("input_ids", ids_dtype(vocab_size), record_tokens),
            Feature("meta", META),
            # One bit per token, first token lowest: 1 = a line ends here.
            Feature("line_ends", "u1", record_tokens // 8),
        ]
    )
