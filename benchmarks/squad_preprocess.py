"""How fast SQuAD files become features on disk, printed as JSON.

    python -m benchmarks.squad_preprocess --input=dev-v2.0.json \\
        --spiece_model_file=spiece.model

Questions per second of CPU time of one core, features written, at length 384
and stride 128; the bound that SentencePiece alone sets on the same texts; and
wall-clock questions per second with worker processes, start-up excluded by
taking the difference of two sizes.
"""

import json
import os
import statistics
import tempfile
import time

from absl import flags

from data.finetuning.examples import BadRows
from data.finetuning.features import cache as finetune_cache
from data.finetuning.features import tokens as task_tokens
from data.finetuning.options import FeatureOptions, SquadDataOptions
from data.finetuning.squad import examples as squad_examples
from data.finetuning.squad import windows as squad_windows
from data.finetuning.squad.examples import SquadFile
from flags import app

FLAGS = flags.FLAGS
LENGTH, STRIDE, QUERY = 384, 128, 64


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string("input", None, "SQuAD JSON file.", required=True)
    flags.DEFINE_string(
        "spiece_model_file", None, "SentencePiece model.", required=True
    )
    flags.DEFINE_integer("repeats", 5, "Runs of which the median counts.", 1)
    flags.DEFINE_integer(
        "copies", 8, "Copies of the file that the worker runs read.", 1
    )
    flags.DEFINE_integer("workers", 2, "Processes of the worker runs.", 1)


def main() -> None:
    """Measures and prints."""
    file = squad_examples.read_squad(FLAGS.input, False, BadRows())
    questions = len(file.questions)
    repeats = range(FLAGS.repeats)
    # Our features and the bound in turn, so that drift hits both.
    ours, bound = [], []
    for _ in repeats:
        ours.append(cpu_seconds(lambda: write_features(file, 1)))
        bound.append(cpu_seconds(lambda: tokenize_only(file)))
    one, many = statistics.median(ours), statistics.median(bound)
    workers = {str(n): worker_rate(file, n) for n in sorted({1, FLAGS.workers})}
    pieces = sum(
        len(p.ids) for p in squad_windows.from_arrays(build(file, 1))[1]
    )
    print(
        json.dumps(
            {
                "questions": questions,
                "paragraph_pieces": pieces,
                "max_seq_length": LENGTH,
                "doc_stride": STRIDE,
                "questions_per_core_second": round(questions / one, 1),
                "pieces_per_core_second": round(pieces / one, 1),
                "sentencepiece_bound_questions_per_core_second": round(
                    questions / many, 1
                ),
                "share_of_bound": round(many / one, 3),
                "wall_questions_per_second_by_workers": workers,
            },
            indent=2,
        )
    )


def options(num_workers: int) -> tuple[FeatureOptions, SquadDataOptions]:
    """The measured settings."""
    return (
        FeatureOptions(
            FLAGS.spiece_model_file, LENGTH, num_workers=num_workers
        ),
        SquadDataOptions(max_query_length=QUERY, doc_stride=STRIDE),
    )


def build(file: SquadFile, num_workers: int) -> dict:
    """Features of a file as arrays."""
    return squad_windows.build_arrays(file, *options(num_workers), False)


def write_features(file: SquadFile, num_workers: int) -> None:
    """Features of a file, on disk as the commands keep them."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "features.npz")
        finetune_cache.save(path, {}, build(file, num_workers))


def tokenize_only(file: SquadFile) -> None:
    """SentencePiece on the same paragraphs and questions, nothing else."""
    tokenizer = task_tokens.open_tokenizer(FLAGS.spiece_model_file)
    texts = [*file.paragraphs, *(q.text for q in file.questions)]
    task_tokens.encode_batch(tokenizer, texts)


def worker_rate(file: SquadFile, num_workers: int) -> float:
    """Wall-clock questions/s, from the difference of two sizes."""
    small, large = FLAGS.copies, 3 * FLAGS.copies
    times = []
    for copies in (small, large):
        repeated = SquadFile(
            file.paragraphs * copies,
            tuple(
                question.__class__(
                    f"{question.question_id}-{copy}",
                    question.text,
                    question.paragraph + copy * len(file.paragraphs),
                    question.answers,
                    question.answer_start,
                    question.answerable,
                )
                for copy in range(copies)
                for question in file.questions
            ),
            file.version_2,
        )
        start = time.perf_counter()
        write_features(repeated, num_workers)
        times.append(time.perf_counter() - start)
    extra = (large - small) * len(file.questions)
    return round(extra / max(1e-9, times[1] - times[0]), 1)


def cpu_seconds(function) -> float:
    """CPU time of this process for one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


if __name__ == "__main__":
    define()
    app.run(main)
