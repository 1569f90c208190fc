"""Options of the serving commands (L0)."""

import dataclasses

from common.errors import UserError


def at_least(name: str, value: float, least: float) -> None:
    """Raises UserError when a flag's value is too small."""
    if value < least:
        raise UserError(f"--{name} must be at least {least}, received {value}")


@dataclasses.dataclass(frozen=True)
class PredictOptions:
    """Batch prediction.

    Attributes:
      saved_model_dir: exported version folder, or its parent.
      text: texts given on the command line.
      input_file: JSONL, TSV or one text per line (plain, .gz or .xz).
      output_file: JSONL; empty = standard output.
      batch_size: rows per call.
      max_chars: longest text.
      skip_bad_rows: answer bad rows with {"error": ...} and go on.
    """

    saved_model_dir: str
    text: tuple[str, ...] = ()
    input_file: str = ""
    output_file: str = ""
    batch_size: int = 32
    max_chars: int = 50_000
    skip_bad_rows: bool = False

    def __post_init__(self) -> None:
        at_least("batch_size", self.batch_size, 1)
        at_least("max_chars", self.max_chars, 1)
        if bool(self.text) == bool(self.input_file):
            raise UserError("give one of --text and --input_file")


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Export of a model directory.

    Attributes:
      model_dir: of a fine-tuning or pretraining run.
      task: head or task name; empty = as in `task.json`.
      checkpoint: other weights than the directory's; empty = its own.
      spiece_model_file: empty = the directory's copy.
      output_dir: parent of the version folders; empty = MODEL_DIR/export.
      max_seq_length: 0 = as in `task.json`.
      model_name: in the warm-up requests.
      uncased: lower-case text, for a model without `task.json`.
      check: reload and compare.
    """

    model_dir: str
    task: str = ""
    checkpoint: str = ""
    spiece_model_file: str = ""
    output_dir: str = ""
    max_seq_length: int = 0
    model_name: str = "xlnet"
    uncased: bool = False
    check: bool = True

    def __post_init__(self) -> None:
        at_least("max_seq_length", self.max_seq_length, 0)


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """A pretrained checkpoint.

    Attributes:
      checkpoint: directory, prefix or `.index`, of any known format.
      spiece_model_file: empty = `spiece.model` beside the checkpoint.
      uncased: lower-case text.
    """

    checkpoint: str
    spiece_model_file: str = ""
    uncased: bool = False


@dataclasses.dataclass(frozen=True)
class SamplingOptions:
    """How new tokens are picked.

    Attributes:
      max_new_tokens: at most so many.
      num_samples: continuations of one prompt.
      temperature: 0 = always the most probable token.
      top_k: only the k most probable; 0 = all.
      top_p: only the most probable with this much probability; 1 = all.
      seed: equal seeds give equal text.
      use_cache: keep keys and values (the results are the same).
    """

    max_new_tokens: int = 100
    num_samples: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 0.9
    seed: int = 0
    use_cache: bool = True

    def __post_init__(self) -> None:
        at_least("max_new_tokens", self.max_new_tokens, 1)
        at_least("num_samples", self.num_samples, 1)
        at_least("temperature", self.temperature, 0)
        at_least("top_k", self.top_k, 0)
        if not 0.0 < self.top_p <= 1.0:
            raise UserError(f"--top_p must be in (0, 1], received {self.top_p}")
        if not -(2**31) <= self.seed < 2**31:
            raise UserError(f"--seed must fit 32 bits, received {self.seed}")
