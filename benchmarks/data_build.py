"""Speed and memory of the pretraining data builder, as JSON.

    python -m benchmarks.data_build --input_glob=wikitext-2/train.txt \\
        --spiece_model_file=spiece.model
    python -m benchmarks.data_build --suite=memory --input_glob='novels/*.txt' \\
        --spiece_model_file=spiece.model --megabytes=1000

`speed`: tokens of corpus per second, both directions written, steady state
(processes are up, tables are made). One worker and two take turns, round after
round, so that a noisy machine hits both; CPU seconds are given beside the wall
clock because they suffer less from neighbours. `memory`: peak resident memory
of all processes together while a corpus of --megabytes is built, less what
they held after their imports. `profile`: where one worker's time goes.
"""

import cProfile
import io
import json
import multiprocessing
import os
import pstats
import shutil
import statistics
import tempfile
import threading
import time

import psutil
from absl import flags

from common.errors import UserError
from data.corpus import corpus_plan
from data.corpus import documents as corpus
from data.pretraining.block_builder import BlockBuilder, Plan
from data.pretraining.build import build
from data.pretraining.manifest import make_format
from data.pretraining.options import BuildOptions
from flags import app

FLAGS = flags.FLAGS
# Bytes of one example of 512 tokens in the original's files.
ORIGINAL_BYTES = 2600
_POLL_SECONDS = 0.05


def define() -> None:
    """Registers the benchmark's flags."""
    flags.DEFINE_string(
        "input_glob",
        None,
        "Text to build from in the benchmark.",
        required=True,
    )
    flags.DEFINE_string(
        "spiece_model_file", None, "Vocabulary of the benchmark.", required=True
    )
    flags.DEFINE_enum(
        "suite", "speed", ("speed", "memory", "profile"), "What to measure."
    )
    flags.DEFINE_integer("rounds", 3, "Turns of one and of two workers.", 1)
    flags.DEFINE_integer(
        "megabytes", 1000, "Text of the memory suite, 1e6 B.", 1
    )
    flags.DEFINE_integer("num_workers", 2, "Workers of the memory suite.", 1)


def _options(output_dir: str) -> BuildOptions:
    return BuildOptions(
        input_glob=FLAGS.input_glob,
        spiece_model_file=FLAGS.spiece_model_file,
        output_dir=output_dir,
    )


def _plan(options: BuildOptions, num_blocks: int) -> Plan:
    """Blocks of equal size: the same text for every worker."""
    paths = corpus.list_files(options.input_glob)
    blocks = []
    for path in paths:
        blocks += corpus_plan.plan_blocks(
            path, int(options.block_megabytes * 1e6)
        )
    blocks = [b for b in blocks if b.end - b.start > 1e6] or blocks
    largest = max(blocks, key=lambda b: b.end - b.start)
    return Plan(((largest,),) * num_blocks, {"train": 64, "dev": 8}, {})


def _worker(options, plan, number, barrier, results) -> None:
    """Builds its block once to warm up, then again and again, timed."""
    try:
        builder = BlockBuilder(options, plan)
        tokens = builder.build(number)["counts"]["train_tokens"]
    except UserError as e:
        results.done.put(e)
        barrier.abort()  # nobody waits for this one
        return
    while True:
        try:
            barrier.wait()
        except threading.BrokenBarrierError:
            return
        command = results.get()
        if command is None:
            return
        wall, cpu = time.perf_counter(), time.process_time()
        if number < command:
            builder.build(number)
        wall = time.perf_counter() - wall
        cpu = time.process_time() - cpu
        barrier.wait()
        results.done.put((number, tokens, wall, cpu))


class _Queues:
    """One queue per direction, picklable together."""

    def __init__(self, context):
        self.commands, self.done = context.Queue(), context.Queue()

    def get(self):
        return self.commands.get()


def speed(folder: str) -> dict:
    """One and two workers in turns."""
    options = _options(folder)
    plan = _plan(options, 2)
    context = multiprocessing.get_context("spawn")
    barrier, queues = context.Barrier(3), _Queues(context)
    workers = [
        context.Process(
            target=_worker, args=(options, plan, n, barrier, queues)
        )
        for n in range(2)
    ]
    for worker in workers:
        worker.start()
    rounds = {1: [], 2: []}
    for turn in range(2 * FLAGS.rounds):
        count = 1 + (turn + turn // 2) % 2  # 1 2 2 1 1 2 ...
        for _ in workers:
            queues.commands.put(count)
        try:
            barrier.wait()
        except threading.BrokenBarrierError:
            error = queues.done.get()
            for worker in workers:
                worker.join()
            raise error from None
        start = time.perf_counter()
        barrier.wait()
        wall = time.perf_counter() - start
        finished = sorted(queues.done.get() for _ in workers)[:count]
        rounds[count].append(
            {
                "tokens_per_second": sum(f[1] for f in finished) / wall,
                "tokens_per_cpu_second": sum(f[1] for f in finished)
                / sum(f[3] for f in finished),
            }
        )
    for _ in workers:
        queues.commands.put(None)
    barrier.wait()
    for worker in workers:
        worker.join()
    best = {
        n: max(r["tokens_per_second"] for r in v) for n, v in rounds.items()
    }
    size = make_format(options.seq_len, options.num_predict, 32000).record_size
    return {
        "seq_len": options.seq_len,
        "one_worker": rounds[1],
        "two_workers": rounds[2],
        "tokens_per_second_per_core": best[1],
        "tokens_per_cpu_second": max(
            r["tokens_per_cpu_second"] for r in rounds[1]
        ),
        "two_over_one_median_of_rounds": gain(rounds[1], rounds[2]),
        "bytes_per_example": size,
        "bytes_per_example_original": ORIGINAL_BYTES,
    }


def gain(one: list[dict], two: list[dict]) -> float:
    """Median over the rounds of two workers' tokens per second over one's."""
    return statistics.median(
        b["tokens_per_second"] / a["tokens_per_second"]
        for a, b in zip(one, two, strict=True)
    )


def memory(folder: str) -> dict:
    """Peak memory of a build of --megabytes, less the imports."""
    text = os.path.join(folder, "corpus.txt")
    parts = []
    for path in corpus.list_files(FLAGS.input_glob):
        with open(path, "rb") as f:
            parts.append(f.read() + b"\n\n")
    size = 0
    with open(text, "wb") as f:
        while size < FLAGS.megabytes * 1e6:
            size += sum(f.write(part) for part in parts)
    del parts
    options = BuildOptions(
        input_glob=text,
        spiece_model_file=FLAGS.spiece_model_file,
        output_dir=os.path.join(folder, "records"),
        num_workers=FLAGS.num_workers,
    )
    watch = _Watch()
    start = time.perf_counter()
    manifest = build(options, log=lambda line: None)
    seconds = time.perf_counter() - start
    watch.stop()
    return {
        "megabytes": size / 1e6,
        "num_workers": FLAGS.num_workers,
        "tokens": manifest.counts["train_tokens"],
        "tokens_per_second": manifest.counts["train_tokens"] / seconds,
        "peak_mb": watch.peak / 1e6,
        "peak_beyond_imports_mb": watch.beyond / 1e6,
    }


class _Watch:
    """Sums the resident memory of this process and its children."""

    def __init__(self):
        self.peak = self.beyond = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        me = psutil.Process()
        imports = _import_memory()
        while not self._stop.wait(_POLL_SECONDS):
            total = beyond = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    used = process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
                total += used
                beyond += max(0, used - imports)
            self.peak = max(self.peak, total)
            self.beyond = max(self.beyond, beyond)

    def stop(self) -> None:
        """Ends the measurement."""
        self._stop.set()
        self._thread.join()


def _imported(queue) -> None:
    queue.put(psutil.Process().memory_info().rss)


def _import_memory() -> int:
    """Resident bytes of a worker that has imported and done nothing."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_imported, args=(queue,))
    process.start()
    used = queue.get()
    process.join()
    return used


def profile(folder: str) -> dict:
    """Where one worker's time goes: the functions by own time."""
    options = _options(folder)
    plan = _plan(options, 1)
    builder = BlockBuilder(options, plan)
    builder.build(0)
    profiler = cProfile.Profile()
    profiler.enable()
    builder.build(0)
    profiler.disable()
    stream = io.StringIO()
    stats = pstats.Stats(profiler, stream=stream)
    stats.sort_stats("tottime").print_stats(20)
    lines = [x for x in stream.getvalue().splitlines() if x.strip()]
    return {"profile": lines[-20:]}


def main() -> None:
    """Runs one suite and prints its JSON."""
    if FLAGS.rounds < 1 or FLAGS.megabytes < 1:
        raise UserError("--rounds and --megabytes must be at least 1")
    folder = tempfile.mkdtemp(prefix="data_build-")
    try:
        suites = {"speed": speed, "memory": memory, "profile": profile}
        result = suites[FLAGS.suite](folder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps({"suite": FLAGS.suite} | result, indent=2))


if __name__ == "__main__":
    define()
    app.run(main)
