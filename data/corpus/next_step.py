"""What to run on a text that was written: a vocabulary is learned from it."""

import os

from common.process import next_command


def vocabulary(text: str, field: str = "text", size: int | None = None) -> str:
    """The line `next:` of commands that write a text.

    Args:
      text: path of the file.
      field: of a JSONL file, what holds its texts.
      size: pieces; None = the default of `data.train_sentencepiece`.
    """
    more = [f"--vocab_size={size}"] if size else []
    more += [f"--text_field={field}"] if field != "text" else []
    return next_command.line(
        *("-m", "data.train_sentencepiece", f"--input_glob={text}"),
        f"--model_prefix={os.path.join(os.path.dirname(text), 'spiece')}",
        *more,
    )
