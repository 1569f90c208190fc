"""`--task_name=tfds:NAME`: classification sets of `tensorflow_datasets`.

Needs that package and, the first time, a network. Text features and a label
feature are taken by name as in `data.finetuning.classifier.sources`.
"""

from collections.abc import Mapping

from common.errors import UserError
from data.finetuning.examples import BadRows, TextExample, collect
from data.finetuning.options import ClassifierDataOptions
from data.finetuning.tables import table_columns

SPLITS = {"dev": ("validation", "dev", "test"), "test": ("test",)}


def read(
    name: str,
    split: str,
    options: ClassifierDataOptions,
    bad: BadRows,
    known: Mapping[str, int] | None,
) -> list[TextExample]:
    """All examples of a split in the stored order.

    Args:
      name: e.g. "imdb_reviews" or "glue/sst2".
      split: "train", "dev" (validation, else test) or a name of the set.
      known: allowed class names or None.

    Raises:
      UserError: the package or the set is not there, or see `BadRows`.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError as e:
        raise UserError(
            f"--task_name=tfds:{name} needs `pip install tensorflow-datasets`"
        ) from e
    try:
        builder = tfds.builder(name)
        builder.download_and_prepare()
    except Exception as e:  # registry, network and disk, each with its own
        line = str(e).strip().splitlines()
        raise UserError(
            f"--task_name=tfds:{name} cannot be prepared: "
            f"{type(e).__name__}: {line[0][:200] if line else ''}"
        ) from e
    chosen = _split(name, split, builder.info.splits)
    features = builder.info.features
    where = f"tfds:{name}/{chosen}"
    columns = table_columns.choose(
        where, list(features), options, need_label=True
    )
    bad.say(columns.describe(where))
    dataset = tfds.as_numpy(builder.as_dataset(split=chosen))
    names = getattr(features[columns.label], "int2str", None)

    def rows():
        for number, row in enumerate(dataset):
            label = _text(row[columns.label])
            if names is not None and int(row[columns.label]) >= 0:
                label = names(int(row[columns.label]))
            texts = [_text(row[n]) for n in columns.texts]
            problem = None
            if not all(map(str.strip, texts)):
                problem = "a text field is empty"
            key = _text(row[columns.key]) if columns.key else str(number)
            yield f"{where}:{number}", texts, label, key, problem

    return collect(rows(), bad, options.head, known, options.label_separator)


def _split(name: str, split: str, there: Mapping) -> str:
    for candidate in SPLITS.get(split, (split,)):
        if candidate in there:
            return candidate
    raise UserError(
        f"tfds:{name} has no {split} split, only {', '.join(sorted(there))}"
    )


def _text(value) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
