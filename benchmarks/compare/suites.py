"""The comparisons: which systems, on which sizes, and the tables they make."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.compare import flops, harness, lengths, selection
from benchmarks.compare.harness import System
from benchmarks.systems.workloads import MODERNBERT_INNER, Workload
from common.errors import UserError
from flags.bench_flags import BenchOptions

OURS = "benchmarks.systems.ours"
GARDEN = "benchmarks.systems.garden"
TORCH = "benchmarks.systems.torch"
PEAK = "benchmarks.systems.peak"
LM_TORCH = "benchmarks.systems.lm_torch"
LM_KERAS = "benchmarks.systems.lm_keras"
ONNX = "benchmarks.systems.onnx_runtime"
BFLOAT16 = {"precision": "mixed_bfloat16"}
# Inference alone: the weights are in bfloat16 too, as in exports.
STORED = {"precision": "bfloat16"}


# The machine's matmul peak, measured in turn with the systems.
PEAKS = [System(d, PEAK, {"dtype": d}) for d in ("float32", "bfloat16")]


def trainers(options: BenchOptions) -> list[System]:
    """Competitors of the training suites; the first is the reference."""
    systems = [
        System("ours", OURS),
        System("ours bfloat16", OURS, BFLOAT16),
        System("Model Garden graph", GARDEN),
        System("Model Garden bfloat16", GARDEN, BFLOAT16),
    ]
    if not options.quick:
        systems += [
            System("ours XLA", OURS, {"jit": True}),
            System("Model Garden XLA", GARDEN, {"jit": True}),
        ]
    return systems + torch_systems(options)


def torch_systems(options: BenchOptions) -> list[System]:
    """Hugging Face under torch.compile, where there is an environment."""
    python = options.torch_python
    if not python:
        return []
    return compiled_pair("HF torch.compile", TORCH, python)


def compiled_pair(name: str, module: str, python: str) -> list[System]:
    """A peer under torch.compile, in float32 and in bfloat16."""
    compiled = {"compile": True}
    return [
        System(name, module, compiled, python),
        System(f"{name} bfloat16", module, compiled | BFLOAT16, python),
    ]


def stored_systems(options: BenchOptions) -> list[System]:
    """Models whose weights are kept in bfloat16: no call casts them."""
    systems = [System("ours bfloat16 weights", OURS, STORED)]
    if python := options.torch_python:
        name = "HF torch.compile bfloat16 weights"
        compiled = {"compile": True} | STORED
        systems.append(System(name, TORCH, compiled, python))
    return systems


Suite = Callable[[BenchOptions], Iterator[tuple[Workload, list[System]]]]


def pretrain(options: BenchOptions):
    """The pretraining step: B 4, T 512, M 384, P 85, base width."""
    yield Workload("pretrain", layers=options.layers), trainers(options)


def vocabulary(options: BenchOptions):
    """The pretraining step with V 250,000, as multilingual models have it.

    One mode of each system: more of them do not fit side by side into 24 GB.
    """
    workload = Workload(
        "pretrain",
        layers=options.layers,
        length=128,
        memory=96,
        predict=21,
        vocab=250_000,
    )
    systems = [System("ours", OURS), System("Model Garden graph", GARDEN)]
    yield workload, systems + torch_systems(options)[:1]


def finetune(options: BenchOptions):
    """The step of a classifier: B 4, T 512."""
    yield Workload("finetune", layers=options.layers), trainers(options)


def inference(options: BenchOptions):
    """A classifier's forward pass: B 4, T 512."""
    systems = [
        System("ours", OURS),
        System("ours XLA", OURS, {"jit": True}),
        System("ours bfloat16", OURS, BFLOAT16),
        System("Model Garden graph", GARDEN),
        System("Model Garden XLA", GARDEN, {"jit": True}),
        System("Model Garden bfloat16", GARDEN, BFLOAT16),
    ]
    systems += torch_systems(options) + stored_systems(options)
    yield Workload("inference", layers=options.layers), systems


def real_lengths(options: BenchOptions):
    """Examples with the lengths of SST-2 (T 128) and IMDB (T 512).

    The Model Garden pads every example to T, as its users do; ours are
    sorted into batches of similar lengths.
    """
    count = 48 if options.quick else 256
    systems = [System("ours", OURS), System("Model Garden graph", GARDEN)]
    if not options.quick:
        systems.append(System("Model Garden XLA", GARDEN, {"jit": True}))
    for name, limit in (("sst2", 128), ("imdb", 512)):
        name, values = _lengths_of(name, count, options)
        yield (
            Workload(
                "lengths",
                layers=options.layers,
                batch=16,
                length=limit,
                lengths=lengths.write(name, values),
            ),
            systems,
        )


def ranking(options: BenchOptions):
    """Documents embedded, and pairs scored, per second (`run_ranking.py`).

    Texts of the length of abstracts: first all layers' frozen vectors, then
    the cross-encoder's forward pass.
    """
    values = lengths.draw("abstracts", 32 if options.quick else 64)
    systems = [System("ours", OURS)]
    if options.torch_python:
        systems.append(System("HF", TORCH, {}, options.torch_python))
    for kind in ("embed", "lengths"):
        yield (
            Workload(
                kind,
                layers=options.layers,
                batch=16,
                length=256,
                lengths=lengths.write("abstracts-assumed", values),
            ),
            systems,
        )


def _lengths_of(name: str, count: int, options: BenchOptions):
    """(name, pieces of so many examples), of the data or assumed."""
    if not options.data_dir:
        return f"{name}-assumed", lengths.draw(name, count)
    return name, lengths.read(
        name, options.data_dir, options.spiece_model_file, count
    )


def packing(options: BenchOptions):
    """Passes over examples of real lengths: padded, by length, packed.

    Once as an evaluation reads them, once with training steps; by BERT and by
    XLNet.
    """
    count = 48 if options.quick else 128
    systems = [
        System("ours", OURS, {"batches": "padded"}),
        System("ours length buckets", OURS),
        System("ours packed", OURS, {"batches": "packed"}),
    ]
    for name, limit in (("sst2", 128), ("imdb", 512)):
        name, values = _lengths_of(name, count, options)
        base = Workload(
            layers=options.layers,
            batch=16,
            length=limit,
            lengths=lengths.write(name, values),
        )
        for model_type in ("bert", "xlnet"):
            for kind in ("lengths", "train_lengths"):
                yield base.replace(kind=kind, model_type=model_type), systems


def encoders(options: BenchOptions):
    """Training step and inference of BERT, ALBERT, ModernBERT: B 4, T 512."""
    systems = [System("ours", OURS), System("ours bfloat16", OURS, BFLOAT16)]
    if not options.quick:
        systems.append(System("ours XLA", OURS, {"jit": True}))
    for model_type in ("bert", "albert", "modernbert"):
        base = Workload(layers=options.layers, model_type=model_type)
        if model_type == "modernbert":
            base = base.replace(inner=MODERNBERT_INNER)
        all_systems = systems + torch_systems(options)
        yield base.replace(kind="finetune"), all_systems
        yield (
            base.replace(kind="inference"),
            all_systems + stored_systems(options),
        )


def small(options: BenchOptions):
    """Training steps of models for a laptop: L 4, D 192, B 16, T 128."""
    base = Workload(
        layers=4,
        batch=16,
        length=128,
        memory=64,
        predict=43,
        vocab=8000,
        width=192,
        heads=4,
        inner=768,
    )
    systems = [System("ours", OURS), *torch_systems(options)]
    yield base, systems
    for model_type in ("bert", "albert", "modernbert"):
        workload = base.replace(kind="finetune", model_type=model_type)
        if model_type == "modernbert":
            workload = workload.replace(inner=MODERNBERT_INNER // 4)
        yield workload, systems


def onnxruntime(options: BenchOptions):
    """Inference beside ONNX Runtime, B 4, T 512: float32, weights in int8."""
    if not options.torch_python:
        return
    python = options.torch_python
    systems = [
        System("ours", OURS),
        System("ours bfloat16", OURS, BFLOAT16),
        System("ours bfloat16 weights", OURS, STORED),
        System("ONNX Runtime", ONNX, {}, python),
        System("ONNX Runtime int8", ONNX, {"int8": True}, python),
    ]
    for model_type in ("bert", "albert"):
        base = Workload("inference", layers=options.layers)
        yield base.replace(model_type=model_type), systems


def long_rows(options: BenchOptions):
    """One row of 512 to 4,096 tokens through three kinds of attention.

    BERT, whose attention is dense, local layers of ModernBERT, and XLNet in
    segments of 512 that carry memory; the same width and number of layers.
    """
    recurrent = {"model_type": "xlnet", "segments": 512}
    systems = [
        System("ours", OURS),
        System("ours local layers", OURS, {"local_layers": True}),
        System("ours segment recurrence", OURS, recurrent),
    ]
    longest = 1024 if options.quick else 4096
    length = 512
    while length <= longest:
        yield (
            Workload(
                "inference",
                layers=options.layers,
                batch=1,
                length=length,
                model_type="bert",
            ),
            systems,
        )
        length *= 2


def scaling(options: BenchOptions):
    """Our pretraining step over B 2..16 and M 0..1024."""
    batches = (2, 4, 8) if options.quick else (2, 4, 8, 16)
    memories = (0, 1024) if options.quick else (0, 128, 384, 768, 1024)
    base = Workload("pretrain", layers=min(options.layers, 2))
    systems = [System("ours", OURS)]
    for batch in batches:
        yield base.replace(batch=batch), systems
    for memory in memories:
        yield base.replace(batch=2, memory=memory), systems


def language_model(options: BenchOptions):
    """The step of `run_lm.py`, at the widths of enwik8's 12 layers (T and M
    512) and of WikiText-103's standard model with its adaptive softmax (T and
    M 150), beside Transformer-XL in PyTorch under torch.compile and a plain
    Transformer of tf_keras (one softmax, no memory).
    """
    ours = System("ours", OURS)
    reduced = System("ours bfloat16", OURS, BFLOAT16)
    theirs = []
    if options.torch_python:
        theirs = compiled_pair(
            "PyTorch torch.compile", LM_TORCH, options.torch_python
        )
    plain = [System("tf_keras graph", LM_KERAS)]
    if not options.quick:
        plain.append(System("tf_keras XLA", LM_KERAS, {"jit": True}))
    characters = Workload(
        "language_model",
        layers=options.layers,
        memory=512,
        vocab=204,
        width=512,
        heads=8,
        inner=2048,
    )
    yield characters, [ours, reduced, *theirs, *plain]
    words = characters.replace(
        batch=15,
        length=150,
        memory=150,
        vocab=267_735,
        cutoffs=(20_000, 40_000, 200_000),
        width=410,
        heads=10,
        inner=2100,
    )
    # One softmax over all words would be tens of gigabytes: no plain model.
    yield words, [ours, reduced, *theirs]


SUITES: dict[str, Suite] = {
    "pretrain": pretrain,
    "vocabulary": vocabulary,
    "finetune": finetune,
    "inference": inference,
    "lengths": real_lengths,
    "ranking": ranking,
    "packing": packing,
    "encoders": encoders,
    "small": small,
    "onnxruntime": onnxruntime,
    "long_rows": long_rows,
    "scaling": scaling,
    "language_model": language_model,
}


def check_systems(options: BenchOptions) -> None:
    """Before the first measurement: every suite has some of `options.systems`.

    Raises:
      UserError: a name is in no suite, or a suite has no choice or none of
        the names; or `options.profile` has no suite whose steps are traced.
    """
    if options.profile and not SUITES.keys() & set(options.suites):
        raise UserError(
            f"--profile: wanted --suites with some of {', '.join(SUITES)}, "
            f"found {', '.join(options.suites)}"
        )
    if options.systems:
        selection.check(
            {
                name: [
                    system.name
                    for _, systems in SUITES[name](options)
                    for system in selection.among(systems, OURS, options)
                ]
                for name in options.suites
                if name in SUITES
            },
            options,
        )


def run(name: str, options: BenchOptions):
    """Runs one suite; where FLOPs are counted, beside the matmul peak.

    Yields:
      (title, rows) per comparison that has one of the chosen systems.
    """
    for workload, systems in SUITES[name](options):
        systems = selection.of(systems, OURS, options)
        if not systems:
            continue
        # A step of "lengths" is a pass over a sample.
        by_pass = name in ("lengths", "packing")
        few = name == "scaling" or (by_pass and options.quick)
        rounds = min(options.rounds, 3) if few else options.rounds
        gflop = flops.of(workload) / 1e9
        beside = PEAKS if gflop else []
        results = harness.compare(
            systems + beside,
            workload,
            rounds,
            systems if options.profile else (),
        )
        peaks = {
            r.name: float(np.median(r.losses))
            for r in results[len(systems) :]
            if r.losses
        }
        results = results[: len(systems)]
        rows = harness.rows(name, workload, results, gflop, peaks)
        yield _title(name, workload), rows


def _title(name: str, w: Workload) -> str:
    sizes = f"L {w.layers}, B {w.batch}, T {w.length}"
    if w.kind == "pretrain":
        sizes += f", M {w.memory}, P {w.predict}, V {w.vocab}"
    if w.model_type != "xlnet" or name == "packing":
        sizes = f"{w.model_type} {w.kind}, {sizes}"
    if w.kind == "language_model":
        sizes += f", M {w.memory}, V {w.vocab}, D {w.width}"
        sizes += ", adaptive softmax" if w.cutoffs else ""
    if w.lengths:
        sizes += f", lengths of {w.lengths.split('/')[-1]}"
    return f"{name}: {w.kind}, {sizes}" if w.lengths else f"{name}: {sizes}"
