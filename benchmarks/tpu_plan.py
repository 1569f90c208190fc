"""Command: what a training step costs on a TPU, found out without one.

    python -m benchmarks.tpu_plan --model_config_path=large \\
        --train_batch_size=2 --precision=mixed_bfloat16 --topology=v3

Lowers the step that `run_pretrain.py` (or a fine-tuning command) runs, compiles
it ahead of time with the public TPU compiler and prints memory, FLOPs, time and
days. Needs `pip install -r requirements-plan.txt`; no TPU.
"""

import dataclasses
import multiprocessing
from concurrent import futures

from benchmarks import tpu_costs, tpu_lowering
from common import files
from common.errors import UserError
from flags import app, plan_flags
from flags.plan_flags import PlanOptions

GB = 1e9


def report(options: PlanOptions) -> dict:
    """Compiles the programs of a plan and adds up what they cost.

    Returns:
      JSON-able: `compiles`, or `why_not`; programs; seconds; days.
    """
    chip = tpu_costs.CHIPS[options.topology]
    found = {
        "config": dataclasses.asdict(options),
        "hbm_per_core": chip.hbm_bytes / chip.cores,
    }
    programs, gradient_bytes = _in_process(options)
    try:
        first, full = (
            None
            if p is None
            else tpu_lowering.compile_apart(p, options.topology)
            for p in programs
        )
    except tpu_lowering.CompileError as e:
        return found | {"compiles": False, "why_not": str(e)}
    chips = max(1, options.pod_cores // chip.cores)
    time = tpu_costs.step_time(first, full, gradient_bytes, chips, chip)
    found |= {
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
    found["fits"] = found["hbm_bytes"] <= found["hbm_per_core"]
    return found


def _in_process(options: PlanOptions) -> tuple[tuple, int]:
    """`_lower` in a process of its own: the compiler needs its memory."""
    spawn = multiprocessing.get_context("spawn")
    with futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(_lower, options).result()


def _lower(options: PlanOptions) -> tuple[tuple, int]:
    """((HLO of forward + backward, of the whole step or None), bytes)."""
    from benchmarks import plan_step

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
        (_, full), _ = _in_process(tried)
        try:
            used = tpu_lowering.compile_apart(full, tried.topology).hbm_bytes
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


def describe(found: dict, options: PlanOptions) -> str:
    """The report as text, assumptions included."""
    head = (
        f"{options.task}, {options.config.n_layer} layers x "
        f"{options.config.d_model}, {options.rows} rows per core, "
        f"T {options.seq_len}, {options.precision}, {options.topology}"
        + (", recompute" if options.recompute_layers else "")
    )
    if not found["compiles"]:
        return f"{head}\ndoes not compile: {found['why_not']}"
    lines = [head, "compiles"]
    for name, title in (
        ("forward_backward", "forward + backward + clipping"),
        ("full_step", "whole step"),
    ):
        p = found[name]
        if p is None:
            continue
        lines.append(
            f"{title}: arguments {p['argument_bytes'] / GB:.2f} GB, "
            f"temporaries {p['temporary_bytes'] / GB:.2f}, outputs "
            f"{p['output_bytes'] / GB:.2f} (in place "
            f"{p['alias_bytes'] / GB:.2f}), program "
            f"{p['code_bytes'] / GB:.2f}; {p['flops'] / 1e12:.3f} TFLOP, "
            f"{p['bytes_accessed'] / GB:.1f} GB accessed; compiler's estimate "
            f"{p['optimal_seconds']:.4f} s; compiled in "
            f"{p['compile_seconds']:.0f} s"
        )
    s = found["seconds"]
    lines += [
        f"HBM {found['hbm_bytes'] / GB:.2f} of "
        f"{found['hbm_per_core'] / GB:.2f} GB per core: "
        + ("fits" if found["fits"] else "DOES NOT FIT"),
        f"step: {s['compute']:.4f} s ({s['source']}) + update "
        f"{s['update']:.4f} + all-reduce {s['all_reduce']:.4f} = "
        f"{s['total']:.4f} s",
        f"{options.train_steps} steps of batch {found['global_batch']} on "
        f"{options.pod_cores} cores ({found['chips']} chips): "
        f"{found['days']:.2f} days",
        "assumptions:",
        *(line for line in tpu_costs.ASSUMPTIONS.splitlines() if line),
    ]
    return "\n".join(lines)


def main() -> None:
    """Compiles, prints and writes the plan."""
    options = plan_flags.from_flags()
    tpu_lowering.require_jax()
    found = report(options)
    print(describe(found, options), flush=True)
    if options.search_batch:
        print("largest number of rows per core:", flush=True)
        fit = bool(found["compiles"] and found["fits"] and options.full_step)
        found["largest_rows"] = search(options, fit)
        print(f"largest: {found['largest_rows']} rows per core", flush=True)
    if options.json_output:
        files.write_json(options.json_output, found)
    if not found["compiles"]:
        raise UserError(f"the step does not compile: {found['why_not']}")


if __name__ == "__main__":
    plan_flags.define()
    app.run(main)
