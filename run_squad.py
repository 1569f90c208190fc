"""Fine-tunes, evaluates, predicts and exports SQuAD 1.1 and 2.0.

    python run_squad.py --train_file=train-v2.0.json \\
        --predict_file=dev-v2.0.json --recipe=squad \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --model_dir=OUT \\
        --do_train --do_eval --do_export

See docs/squad.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

import os

import numpy as np

from common import files
from common.errors import UserError
from data import (
    finetune_batches,
    squad_examples,
    squad_features,
    squad_task,
)
from data.squad_task import SquadSplit
from data.task_base import TaskBase
from data.task_examples import BadRows
from data.task_options import FeatureOptions, SquadDataOptions
from data.task_spec import TaskSpec
from flags import app, common_flags, finetune_flags, squad_flags

# What the model needs of a window when it predicts.
PREDICT_COLUMNS = ("cls_index", "paragraph_length")


def main() -> None:
    """Reads the flags, builds the job and runs it."""
    recipe = finetune_flags.apply_recipe("run_squad.py")
    options = finetune_flags.from_flags()
    data_options = squad_flags.from_flags()
    for line in recipe:
        print(line)

    from serving.export import export_model
    from training import finetune

    spiece = finetune.find_spiece(options, finetune_flags.spiece_model_file())
    text = finetune.find_text(options, spiece, finetune_flags.text_choice())
    features = finetune_flags.features_from_flags(spiece, text)
    if features.segment_recurrence:
        raise UserError(
            "--segment_recurrence is for classification and RACE: SQuAD reads "
            "long paragraphs in windows (--doc_stride)"
        )
    _check_beams(data_options, features)
    job = SquadJob(data_options, features, options).build()
    finetune.run(job, options, export_model, common_flags.all_flags())


def _check_beams(
    data_options: SquadDataOptions, features: FeatureOptions
) -> None:
    beams = max(data_options.start_n_top, data_options.end_n_top)
    shortest = finetune_batches.bucket_lengths(
        features.length_buckets, features.max_seq_length
    )[0]
    if shortest < beams:
        raise UserError(
            f"{beams} beams (--start_n_top, --end_n_top) need batches of at "
            f"least {beams} tokens, found {shortest} (--length_buckets, "
            "--max_seq_length)"
        )


class SquadJob(TaskBase):
    """Turns SQuAD files into a `training.finetune.Job`.

    Args:
      data_options: files, windows and answers.
      features: how text becomes features.
      options: what will be done; only those files are read.
    """

    expand = staticmethod(squad_features.expand_batch)

    def __init__(
        self,
        data_options: SquadDataOptions,
        features: FeatureOptions,
        options,
    ):
        super().__init__(features, options)
        self.data_options = data_options

    def build(self):
        """Reads and windows the files that are needed."""
        from training import finetune, task_job

        options = self.options
        train_input_fn, train_hash, version_2 = None, "", True
        evals: dict = {}
        predicts: dict = {}
        if options.do_train:
            if not self.data_options.train_file:
                raise UserError("--do_train needs --train_file")
            split = self.load(self.data_options.train_file, True)
            train_hash = squad_task.hash_file(split.file)
            train_input_fn = self.input_fn(split.windows.table, True)
        if options.do_eval or options.do_predict or options.run.eval_every:
            if not self.data_options.predict_file:
                raise UserError(
                    "--do_eval, --do_predict and --eval_every need "
                    "--predict_file"
                )
            split = self.load(self.data_options.predict_file, False)
            input_fn = self.input_fn(
                split.windows.table, False, PREDICT_COLUMNS
            )
            write = self.writer(split)
            version_2 = split.file.version_2
            if options.do_eval or options.run.eval_every:
                evals["dev"] = finetune.EvalSplit(
                    input_fn,
                    self.metrics_of(split),
                    None if options.do_predict else write,
                )
            if options.do_predict:
                predicts["dev"] = finetune.PredictSplit(input_fn, write)
        return task_job.make_job(
            self,
            "best_f1" if version_2 else "f1",
            train_input_fn,
            evals,
            predicts,
            {"task": "squad", "train_data": train_hash}
            | self.spec().data_options,
        )

    def spec(self) -> TaskSpec:
        """task.json of this task."""
        return TaskSpec(
            task_name="squad",
            head=squad_task.HEAD,
            labels=(),
            max_seq_length=self.features.max_seq_length,
            text=self.tokenizer.settings,
            spiece_sha256=self.tokenizer.sha256,
            head_options={
                "start_n_top": self.data_options.start_n_top,
                "end_n_top": self.data_options.end_n_top,
            },
            data_options={
                "max_query_length": self.data_options.max_query_length,
                "doc_stride": self.data_options.doc_stride,
                "max_answer_length": self.data_options.max_answer_length,
                "n_best_size": self.data_options.n_best_size,
            },
        )

    def load(self, path: str, training: bool) -> SquadSplit:
        """A file with its windows; says what was read."""
        bad = BadRows(self.features.skip_bad_rows)
        file = squad_examples.read_squad(path, training, bad)
        split = squad_task.build_split(
            file, self.features, self.data_options, training
        )
        windows = split.windows
        line = (
            f"squad {path}: {len(file.questions)} questions on "
            f"{len(file.paragraphs)} paragraphs, "
            f"{len(windows.question)} windows"
        )
        if training:
            outside = int(windows.table.columns["is_impossible"].sum())
            line += f" ({outside} without the answer)"
        print(line + (", from the cache" if split.from_cache else ""))
        if bad.count:
            print(bad.summary())
        return split

    def metrics_of(self, split: SquadSplit):
        """The official numbers from the gathered beams."""

        def metrics(outputs: dict[str, np.ndarray], labels) -> dict:
            del labels
            answers = squad_task.answer_split(split, outputs, self.data_options)
            return squad_task.evaluate_answers(split.file, answers)

        return metrics

    def writer(self, split: SquadSplit):
        """Writes predictions, n-best lists and null odds as JSON."""

        def write(outputs, folder: str) -> list[str]:
            answers = squad_task.answer_split(split, outputs, self.data_options)
            paths = []
            for name, value in (
                ("predictions.json", answers.predictions),
                ("nbest_predictions.json", answers.nbest),
                ("null_odds.json", answers.null_odds),
            ):
                paths.append(os.path.join(folder, name))
                files.write_json(paths[-1], value)
            return paths

        return write


if __name__ == "__main__":
    squad_flags.define()
    app.run(main)
