"""Command: what a training step costs on a TPU, found out without one.

    python -m benchmarks.tpu.plan --model_config_path=large \\
        --train_batch_size=2 --precision=mixed_bfloat16 --topology=v3

Lowers the step that `run_pretrain.py` (or a fine-tuning command) runs, compiles
it ahead of time with the public TPU compiler and prints memory, FLOPs, time and
days. Needs `pip install -r requirements-plan.txt`; no TPU.
"""

import dataclasses
import multiprocessing
import os
from concurrent import futures

from benchmarks.tpu import costs as tpu_costs
from benchmarks.tpu import job as tpu_job
from benchmarks.tpu import lowering as tpu_lowering
from common import files
from common.errors import UserError
from flags import app, plan_flags
from flags.plan_flags import GB, PlanOptions
from modeling.encoders.contract import EncoderConfig

# What the compiler was seen to take: of itself, and per layer of Large's width.
BASE_GB = 2.0
LAYER_GB = 0.75


def report(options: PlanOptions) -> dict:
    """Compiles the programs of a plan and adds up what they cost.

    Returns:
      JSON-able: `compiles`, or `why_not`; programs; seconds; days.
    """
    chip = tpu_costs.CHIPS[options.topology]
    chips = tpu_costs.units(options.pod_cores, chip.cores, "chip")
    if options.job:
        tpu_job.hosts_of(options)  # what is wrong is said before the compiler
    plan = {
        "config": dataclasses.asdict(options),
        "hbm_per_core": chip.hbm_bytes / chip.cores,
    }
    try:
        first, full, gradient_bytes = _compiled(options)
    except tpu_lowering.CompileError as e:
        return plan | {"compiles": False, "why_not": str(e)}
    time = tpu_costs.step_time(first, full, gradient_bytes, chips, chip)
    plan |= {
        "compiles": True,
        "forward_backward": dataclasses.asdict(first),
        "full_step": dataclasses.asdict(full) if full else None,
        "hbm_bytes": (full or first).hbm_bytes,
        "gradient_bytes": gradient_bytes,
        "seconds": dataclasses.asdict(time) | {"total": time.total},
        "chips": chips,
        "global_batch": options.rows * options.pod_cores,
        "days": tpu_costs.days(time.total, options.train_steps),
    }
    plan["fits"] = plan["hbm_bytes"] <= plan["hbm_per_core"]
    if options.job:
        plan["job"] = tpu_job.plan_job(options, time.total, gradient_bytes)
    return plan


def _compiled(options: PlanOptions):
    """(forward + backward, whole step or None, bytes of gradients)."""
    if not options.layers:
        programs, gradient_bytes = _in_process(options)
        return *(_compile(p, options) for p in programs), gradient_bytes
    costs = []
    for count in options.layers:
        config = options.config.replace(n_layer=count)
        costs.append(_compiled(options.replace(config=config, layers=())))
    counts = (*options.layers, options.config.n_layer)
    chip = tpu_costs.CHIPS[options.topology]
    first, full = (
        low and tpu_costs.extrapolate(low, high, counts, chip)
        for low, high in zip(costs[0][:2], costs[1][:2], strict=True)
    )
    few, more, wanted = counts
    step = (costs[1][2] - costs[0][2]) // (more - few)
    return first, full, costs[0][2] + (wanted - few) * step


def _compile(program: bytes | None, options: PlanOptions):
    """What the compiler says of one program, now or in an earlier run."""
    if program is None:
        return None
    if not options.cache_dir:
        return _timed(program, options.topology)
    digest = tpu_lowering.fingerprint(program, options.topology)
    path = os.path.join(options.cache_dir, f"{digest}.json")
    if files.exists(path):
        say("  this program is known")
        known = files.read_json_object(path, "")
        return tpu_lowering.Compiled(**known)
    compiled = _timed(program, options.topology)
    files.write_json(path, dataclasses.asdict(compiled))
    return compiled


def _timed(program: bytes, topology: str):
    say(f"  compiling a program of {len(program) / 1e6:.1f} MB")
    compiled = tpu_lowering.compile_apart(program, topology)
    say(f"  compiled in {compiled.compile_seconds:.0f} s")
    return compiled


def say(line: str) -> None:
    """A line of progress."""
    print(line, flush=True)


def require_memory(options: PlanOptions) -> None:
    """Compiling takes memory: says so before it starts.

    Raises:
      UserError: there is less than the compiler was seen to take.
    """
    layers = options.layers[-1] if options.layers else options.config.n_layer
    wide = (options.config.d_model / 1024) ** 2
    need = (BASE_GB + LAYER_GB * layers * wide) * GB
    have = _available_bytes()
    say(
        f"compiling {layers} layers takes about {need / GB:.0f} GB of memory, "
        f"{have / GB:.0f} GB are free"
    )
    if have < need:
        raise UserError(
            f"compiling {layers} layers takes about {need / GB:.0f} GB of "
            f"memory and {have / GB:.0f} GB are free (without swap): compile "
            "few and draw a line through them (--layers=2,4), or use a larger "
            "machine"
        )


def _available_bytes() -> float:
    with open("/proc/meminfo", encoding="ascii") as f:
        values = dict(line.split(":") for line in f)
    return 1024.0 * int(values["MemAvailable"].split()[0])


def _in_process(options: PlanOptions) -> tuple[tuple, int]:
    """`_lower` in a process of its own: the compiler needs its memory."""
    say(f"lowering {options.config.n_layer} layers, {options.rows} rows")
    spawn = multiprocessing.get_context("spawn")
    with futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(_lower, options).result()


def _lower(options: PlanOptions) -> tuple[tuple, int]:
    """((HLO of forward + backward, of the whole step or None), bytes)."""
    from benchmarks.tpu import plan_step

    step = plan_step.prepare(options)
    full = step.full() if options.full_step else None
    return (step.forward_backward(), full), step.gradient_bytes


def search(options: PlanOptions, known_to_fit: bool) -> int:
    """The largest number of rows whose full step fits one core's HBM.

    Args:
      options: of the plan.
      known_to_fit: `options.rows` fit; the search begins there, else at the
        fewest.
    """
    unit = 2 if options.task == "pretrain" else 1
    chip = tpu_costs.CHIPS[options.topology]
    limit = chip.hbm_bytes / chip.cores

    def fits(count: int) -> bool:
        if known_to_fit and count * unit == options.rows:
            return True
        tried = options.replace(rows=count * unit, full_step=True)
        try:
            used = _compiled(tried)[1].hbm_bytes
            size = f"{used / GB:.2f} GB"
        except tpu_lowering.CompileError as e:
            used, size = float("inf"), str(e)
        good = used <= limit
        print(
            f"  {count * unit} rows: {'fit' if good else 'do not fit'} ({size})",
            flush=True,
        )
        return good

    start = options.rows // unit if known_to_fit else 1
    return unit * tpu_costs.largest_fitting(fits, start)


def describe(plan: dict, options: PlanOptions) -> str:
    """The report as text, assumptions included."""
    head = (
        f"{options.task}, {options.config.n_layer} layers x "
        f"{options.config.d_model}, {options.rows} rows per core, "
        f"T {options.seq_len}, {options.precision}, {options.topology}"
        + (", recompute" if options.recompute_layers else "")
        + (
            f"; a line through {options.layers[0]} and {options.layers[1]} "
            "layers"
            if options.layers
            else ""
        )
    )
    if not plan["compiles"]:
        return f"{head}\ndoes not compile: {plan['why_not']}"
    lines = [head, "compiles"]
    for name, title in (
        ("forward_backward", "forward + backward + clipping"),
        ("full_step", "whole step"),
    ):
        p = plan[name]
        if p is None:
            continue
        lines.append(
            f"{title}: arguments {p['argument_bytes'] / GB:.2f} GB, "
            f"temporaries {p['temporary_bytes'] / GB:.2f}, outputs "
            f"{p['output_bytes'] / GB:.2f} (in place "
            f"{p['alias_bytes'] / GB:.2f}), program "
            f"{p['code_bytes'] / GB:.2f}; {p['flops'] / 1e12:.3f} TFLOP, "
            f"{p['bytes_accessed'] / GB:.1f} GB accessed; "
            f"{_estimate(p, options)}; compiled in "
            f"{p['compile_seconds']:.0f} s"
        )
    s = plan["seconds"]
    lines += [
        f"HBM {plan['hbm_bytes'] / GB:.2f} of "
        f"{plan['hbm_per_core'] / GB:.2f} GB per core: "
        + ("fits" if plan["fits"] else "DOES NOT FIT"),
        f"step: {s['compute']:.4f} s ({s['source']}) + update "
        f"{s['update']:.4f} + all-reduce {s['all_reduce']:.4f} = "
        f"{s['total']:.4f} s",
        f"{options.train_steps} steps of batch {plan['global_batch']} on "
        f"{options.pod_cores} cores ({plan['chips']} chips): "
        f"{plan['days']:.2f} days",
    ]
    assumed = tpu_costs.ASSUMPTIONS
    if "job" in plan:
        lines += tpu_job.describe_job(plan["job"], options)
        assumed += tpu_job.ASSUMPTIONS
    lines += ["assumptions:", *(line for line in assumed.splitlines() if line)]
    return "\n".join(lines)


def parameters_of(config: EncoderConfig) -> int:
    """Parameters of a pretraining model; nothing is drawn."""
    import tensorflow as tf

    from modeling import PretrainingModel

    with tf.Graph().as_default():
        variables = PretrainingModel(config).variables
        return sum(v.shape.num_elements() for v in variables)


def _estimate(program: dict, options: PlanOptions) -> str:
    """Seconds of a program, and whose; never the compiler's -1 s."""
    seconds, source = tpu_costs.compute_seconds(
        program["flops"],
        program["bytes_accessed"],
        program["optimal_seconds"],
        tpu_costs.CHIPS[options.topology],
    )
    return f"{seconds:.4f} s ({source})"


def plan_by_formula(options: PlanOptions) -> dict:
    """Prints the job around a step that is not compiled; its numbers."""
    weights = 4 * parameters_of(options.config)
    job = tpu_job.plan_job(options, options.step_seconds, weights)
    for line in tpu_job.describe_job(job, options):
        say(line)
    return {"config": dataclasses.asdict(options), "job": job}


def main() -> None:
    """Compiles, prints and writes the plan."""
    options = plan_flags.from_flags()
    if options.step_seconds:
        plan = plan_by_formula(options)
        if options.json_output:
            files.write_json(options.json_output, plan)
        return
    tpu_lowering.require_jax()
    try:
        require_memory(options)
    except UserError:
        if options.job:  # what needs no compiler
            plan_by_formula(options)
        raise
    plan = report(options)
    print(describe(plan, options), flush=True)
    if options.search_batch:
        print("largest number of rows per core:", flush=True)
        fit = bool(plan["compiles"] and plan["fits"] and options.full_step)
        plan["largest_rows"] = search(options, fit)
        print(f"largest: {plan['largest_rows']} rows per core", flush=True)
    if options.json_output:
        files.write_json(options.json_output, plan)
    if not plan["compiles"]:
        raise UserError(f"the step does not compile: {plan['why_not']}")


if __name__ == "__main__":
    plan_flags.define()
    app.run(main)
