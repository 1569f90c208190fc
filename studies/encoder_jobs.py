"""Tasks that pretrained models are tuned on, and sizes that are equal."""

import dataclasses

from modeling.encoders.contract import EncoderConfig


@dataclasses.dataclass(frozen=True)
class Task:
    """A fine-tuning task of the table.

    Attributes:
      command: that tunes it.
      folder: below --data_dir; "" = of the embedded corpus.
      metric: of `eval_<split>.json`.
      arguments: further flags; `{data}` is the folder.
      steps: of a run; --finetune_steps replaces it.
    """

    command: str
    folder: str
    metric: str
    arguments: tuple[str, ...]
    steps: int


_TEXT = "run_classifier.py"
_AT = "--data_dir={data}"
TASKS = {
    "demo": Task(
        _TEXT,
        "",
        "accuracy",
        ("--task_name=tsv", _AT, "--max_seq_length=64"),
        300,
    ),
    "trec": Task(
        _TEXT,
        "trec",
        "accuracy",
        ("--task_name=trec", _AT, "--max_seq_length=32"),
        500,
    ),
    "ag": Task(
        _TEXT,
        "ag_news_csv",
        "accuracy",
        ("--task_name=ag", _AT, "--max_seq_length=64"),
        400,
    ),
    "sst-2": Task(
        _TEXT,
        "glue",
        "accuracy",
        ("--task_name=sst-2", _AT, "--max_seq_length=48"),
        800,
    ),
    "imdb": Task(
        _TEXT,
        "aclImdb",
        "accuracy",
        ("--task_name=imdb", _AT, "--max_seq_length=256")
        + ("--length_buckets=auto",),
        250,
    ),
    "squad": Task(
        "run_squad.py",
        "squad",
        "f1",
        ("--train_file={data}/train-v1.1.json", "--doc_stride=64")
        + ("--predict_file={data}/dev-v1.1.json", "--max_seq_length=192")
        + ("--length_buckets=auto", "--train_batch_size=16"),
        500,
    ),
}


def parameters(model_type: str, vocab_size: int, sizes: dict) -> int:
    """Parameters of a pretraining model; nothing is drawn."""
    from modeling.encoders.registry import new_config

    return parameters_of(new_config(model_type, vocab_size, sizes))


def parameters_of(config: EncoderConfig) -> int:
    """Parameters of a pretraining model; nothing is drawn."""
    import tensorflow as tf

    from modeling import PretrainingModel

    with tf.Graph().as_default():
        variables = PretrainingModel(config).variables
        return sum(v.shape.num_elements() for v in variables)


def sizes_of(model_type: str, width: int, layers: int, heads: int) -> dict:
    """The architecture's flags at a width."""
    found = {"n_layer": layers, "d_model": width, "n_head": heads}
    if model_type == "modernbert":  # two halves: 1.5 D, as in its base size
        return found | {"d_inner": 3 * width // 2, "local_window": 64}
    found["d_inner"] = 4 * width
    if model_type == "xlnet":
        found["d_head"] = width // heads
    if model_type == "albert":
        found["embedding_size"] = min(128, width)
    return found


def equal_width(
    model_type: str, wanted: int, vocab_size: int, layers: int, heads: int
) -> int:
    """The width, a multiple of 4 N, whose parameters are nearest `wanted`."""
    unit = 4 * heads

    def count(k):
        sizes = sizes_of(model_type, k * unit, layers, heads)
        return parameters(model_type, vocab_size, sizes)

    low, high = 1, 2
    while count(high) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < wanted else (low, middle)
    return unit * min((low, high), key=lambda k: abs(count(k) - wanted))
