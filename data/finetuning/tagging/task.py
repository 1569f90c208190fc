"""Tagging: a label per token of a text, or spans; scores as seqeval's."""

import os
from collections.abc import Sequence

import numpy as np

from common import files
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.process import workers
from data.finetuning import examples as task_examples
from data.finetuning import task_settings
from data.finetuning.examples import BadRows
from data.finetuning.features import cache as finetune_cache
from data.finetuning.features import tokens as task_tokens
from data.finetuning.options import FeatureOptions, TaggingDataOptions
from data.finetuning.squad.features import TokenizedParagraph
from data.finetuning.tagging import answers as tagging_answers
from data.finetuning.tagging import examples as tagging_examples
from data.finetuning.tagging import features as tagging_features
from data.finetuning.tagging import metrics as tagging_metrics
from data.finetuning.tagging.answers import Answers
from data.finetuning.tagging.examples import (
    DEV,
    OUTSIDE,
    TEST,
    TaggedText,
)
from data.finetuning.task import TRAIN, Outputs, Split, Task

HEAD = "token_classification"
# Texts that one worker call handles.
CHUNK_TEXTS = 512


class TaggingTask(Task):
    """Files -> pieces -> windows -> tags of tokens or spans of texts."""

    data: TaggingDataOptions

    def __init__(self, data: TaggingDataOptions, *arguments):
        super().__init__(data, *arguments)
        self.labels = data.labels
        if not self.labels and self.trained is not None:
            self.labels = self.trained.labels
            judges = self.options.do_eval and not self.options.do_train
            if judges and task_settings.unnamed(self.labels):
                task_settings.refuse_unnamed(self.labels)
        self.baseline: tagging_metrics.MajorityBaseline | None = None
        if self.features.static_shapes:
            # Logits are as long as their batch: one program has one length.
            self.buckets = (self.features.row_length,)

    def load(self):
        if self.options.do_train:
            self.train = self.read(TRAIN, TRAIN)
        if not self.labels:
            raise UserError(
                "the tags are not known: give --labels, or the --model_dir of "
                "a trained model"
            )
        return super().load()

    def path(self, split: str) -> str:
        """The file of a split; UserError says what was looked for."""
        flag = {TRAIN: "train_file", DEV: "eval_file", TEST: "predict_file"}
        named = getattr(self.data, flag[split])
        if named:
            return named
        folder = self.data.data_dir
        path = tagging_examples.find_split(folder, split) if folder else None
        if path is None and split == TEST and folder:
            path = tagging_examples.find_split(folder, DEV)
        if path is None:
            raise UserError(
                f"no {split} file: give --{flag[split]}"
                + (
                    f", or put {split}.conll or {split}.jsonl into {folder}"
                    if folder
                    else " or --data_dir"
                )
            )
        return path

    def read(self, name: str, use: str) -> Split:
        path = self.path(name)
        key = self.loaded_key(path, use)
        if key not in self._loaded:
            self._loaded[key] = self._read(name, path)
        split = self._loaded[key]
        return Split(name, split.examples, split.table, split.windows)

    def _read(self, name: str, path: str) -> Split:
        bad = BadRows(self.features.skip_bad_rows)
        data = self.data
        examples = tagging_examples.read(
            path,
            bad,
            data,
            labelled=name != TEST,
        )
        if name == TRAIN:
            if not self.labels:
                self.labels = tagging_examples.tag_names(examples)
            if len(self.labels) < 2:
                raise UserError(
                    f"{path}: wanted at least 2 tags, found "
                    f"{', '.join(self.labels)}; check --tag_column (now "
                    f"{data.tag_column}), the spans of JSON lines and --labels"
                )
            examples = self.training_part(examples)
            self.baseline = tagging_metrics.MajorityBaseline(examples)
        if not examples[0].words:
            self._check_spans(path)
        self._check_tags(examples, name, bad)
        pieces, hit = tokenize(
            [e.text for e in examples], self.features, self.tokenizer
        )
        windows = tagging_features.build_windows(
            examples,
            pieces,
            self.labels,
            self.features.row_length,
            data.doc_stride,
            self.tokenizer.symbols,
            self.features.layout,
        )
        unit = "tokens" if examples[0].words else "spans"
        what = (
            f"tagging {path}: {len(examples)} texts, {windows.units} {unit} "
            f"({windows.shared} without a piece of their own), "
            f"{windows.table.num_rows} windows"
        )
        self.say_read(what, windows.table, hit, bad)
        if name == TRAIN:
            self._say_labels(examples)
        return Split(name, examples, windows.table, windows)

    def _say_labels(self, examples: Sequence[TaggedText]) -> None:
        """Says what the tags are, and which one changes how they are counted."""
        found = [tag for e in examples for tag in e.tags or ()]
        names = self.labels
        if not examples[0].words:
            names = tuple(sorted(set(found)))
        print(task_examples.describe_labels(names, found))
        marks = list(map(tagging_metrics.names_chunks, ([n] for n in names)))
        others = [
            name
            for name, names_chunk in zip(names, marks, strict=True)
            if not names_chunk and name != OUTSIDE
        ]
        if examples[0].words and others and any(marks):
            print(
                f"note: {names[marks.index(True)]!r} names a chunk, "
                f"{others[0]!r} does not: scores are of single tags, not of "
                "chunks; correct the tag if it is an error"
            )

    def _check_spans(self, path: str) -> None:
        """Raises UserError where the model's tags cannot tell spans."""
        if OUTSIDE in self.labels and self.chunks:
            return
        found = ", ".join(self.labels[:20])
        raise UserError(
            f"{path}: JSON lines need the tags O and B-x, I-x of each label x, "
            f"found {found}; name --labels so, or give files of a token and "
            "its tag per line to a model of these tags"
        )

    def _check_tags(self, examples, split: str, bad: BadRows) -> None:
        """Notes the tags of a labelled file that the model cannot say.

        They count as wrong: leaving their texts out would flatter the model.
        I- of a label alone tells its spans.
        """
        known = set(self.labels)
        for example in () if split == TEST else examples:
            tags = example.tags or ()
            if not example.words:
                tags = [f"I-{t}" for t in tags]
            if unknown := sorted(set(tags) - known):
                bad.note(
                    example.where,
                    f"the tag {unknown[0]!r} is not of the training file and "
                    "counts as wrong",
                )

    @property
    def chunks(self) -> bool:
        """Tags name chunks (B-, I-), which are counted whole."""
        return tagging_metrics.names_chunks(self.labels)

    @property
    def main_metric(self):
        return "f1" if self.chunks else "accuracy"

    @property
    def metric_names(self):
        return tagging_metrics.names(self.chunks)

    def answers(self, split: Split, outputs: dict) -> Answers:
        """What a model's outputs say, or an ensemble's answers."""
        if "answers" in outputs:
            return outputs["answers"]
        return self.collect(split, outputs)["answers"]

    def metrics(self, split: Split, outputs: Outputs, labels: Outputs):
        result = self._evaluate(split, self.answers(split, outputs))
        if self.baseline is not None:
            guesses = tagging_answers.baseline_guesses(
                split.examples, self.baseline
            )
            scores = tagging_metrics.evaluate(*guesses, self.chunks)
            result |= {f"baseline_{k}": v for k, v in scores.items()}
        return result

    def part_metrics(self, split: Split, outputs: Outputs, part: np.ndarray):
        return self._evaluate(split, self.answers(split, outputs), part)

    def _evaluate(self, split: Split, answers: Answers, part=None):
        groups = split.examples, answers.tags, answers.spans
        if part is not None:
            groups = [[group[i] for i in part] for group in groups]
        pair = tagging_answers.gold_and_guesses(*groups)
        return tagging_metrics.evaluate(*pair, self.chunks)

    def lengths(self, split: Split) -> np.ndarray:
        return np.array([len(e.text) for e in split.examples])

    def collect(self, split: Split, outputs: Outputs) -> dict:
        """Logits of windows -> of pieces: members may have other windows."""
        windows = split.windows
        scores = tagging_features.piece_scores(windows, outputs["logits"])
        answers = tagging_answers.answer_pieces(
            split.examples, windows.pieces, scores, self.labels
        )
        member = tagging_answers.Member(
            split.examples, windows.pieces, scores, answers
        )
        return {"answers": answers, "member": member}

    def combine(self, members, weights):
        """Answers of several models by token or by part of the text."""
        said = [member["member"] for member in members]
        answers = tagging_answers.combine(said, weights, self.labels)
        return {"answers": answers}

    def outputs_of_first(self, split: Split, outputs: Outputs) -> Outputs:
        """As long as the longest rows: the first batch may have had a bucket."""
        repeated = super().outputs_of_first(split, outputs)
        logits = repeated["logits"]  # [W, T, Y]
        missing = self.features.row_length - logits.shape[1]
        width = [(0, 0), (0, missing), (0, 0)]
        return repeated | {"logits": np.pad(logits, width, mode="edge")}

    def write(self, split: Split, outputs: Outputs, folder: str) -> list[str]:
        examples = split.examples
        suffix = "conll" if examples[0].words else "jsonl"
        path = os.path.join(folder, f"{split.name}_predictions.{suffix}")
        answers = self.answers(split, outputs)
        text = tagging_answers.prediction_text(examples, answers)
        files.write_text(path, text)
        return [path]

    def write_report(self, split: Split, outputs: Outputs, folder: str):
        answers = self.answers(split, outputs)
        pair = tagging_answers.gold_and_guesses(
            split.examples, answers.tags, answers.spans
        )
        path = os.path.join(folder, f"{split.name}_report.txt")
        files.write_text(path, tagging_metrics.report(*pair, self.chunks))
        return [path, *self.write(split, outputs, folder)]

    def spec(self) -> TaskSpec:
        return self.make_spec(
            task_settings.TAGGER,
            task_name="tagging",
            head=HEAD,
            labels=self.labels,
            head_options={"num_labels": len(self.labels)}
            | self.kept_head_options(),
        )

    def digest(self, split: Split) -> str:
        return hash_examples(split.examples)

    def must_match(self) -> dict:
        fields = {"task": "tagger", "doc_stride": self.data.doc_stride}
        return super().must_match() | fields


def hash_examples(examples: Sequence[TaggedText]) -> str:
    """Hash of all texts, units and tags."""
    return finetune_cache.hash_texts(
        (e.text, *map(str, e.units), *(e.tags or ())) for e in examples
    )


def tokenize(
    texts: Sequence[str], options: FeatureOptions, tokenizer
) -> tuple[list[TokenizedParagraph], bool]:
    """Pieces of every text, and whether they came from the cache."""

    def make() -> dict[str, np.ndarray]:
        parts = task_tokens.in_workers(
            task_tokens.encode_with_offsets,
            workers.split_chunks(list(texts), CHUNK_TEXTS),
            options.spiece_model_file,
            tokenizer.settings,
            options.num_workers,
        )
        pieces = [p for part in parts for p in part]
        empty = np.zeros(0, np.int32)
        return {
            "sizes": np.array([len(p.ids) for p in pieces], np.int64),
            **{
                name: np.concatenate(
                    [empty, *(getattr(p, name) for p in pieces)]
                )
                for name in ("ids", "start", "end")
            },
        }

    key = {
        "task": "tagging",
        "data": finetune_cache.hash_texts((t,) for t in texts),
        "spiece": tokenizer.sha256,
        "text": tokenizer.settings.as_dict(),
    }
    arrays, hit = finetune_cache.cached(
        options.cache_dir, "tagging-pieces", key, make
    )
    splits = np.cumsum(arrays["sizes"])[:-1]
    columns = [np.split(arrays[n], splits) for n in ("ids", "start", "end")]
    pieces = [TokenizedParagraph(*row) for row in zip(*columns, strict=True)]
    return pieces[: len(texts)], hit
