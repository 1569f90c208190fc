"""What a pretraining job on a pod needs besides its step. Pure arithmetic.

Host memory, the size of a checkpoint, seconds per save, the share of time spent
saving and device-hours, for a job of one process per host and for one process
that drives all hosts (`TPUStrategy`), whose host then holds everything.
"""

import dataclasses

import numpy as np

from benchmarks.tpu import costs as tpu_costs
from common.contract import schema
from data.pretraining.options import ReaderOptions
from flags.plan_flags import GB, PlanOptions

# Cores and bytes of memory of one host, published numbers of TPU VMs.
HOSTS = {
    "v3": (8, 340e9),
    "v4": (4, 400e9),
    "v5e": (8, 400e9),
    "v6e": (8, 1440e9),
}
# TensorFlow's code, the program and the tables of data: what a start takes.
BASE_BYTES = 4e9
ASSUMPTIONS = """5. A save copies from the chips to the hosts, all hosts at once, and then
   writes; only the copy stops training when the write goes on beside it
   (--async_save). A host writes at the given rate, whatever others do.
6. The first host writes weights and slots in float32, every host its rows of
   the memory. Memory of hosts: a copy of what it saves, the reader's batches,
   4 GB for TensorFlow and the program.
"""


@dataclasses.dataclass(frozen=True)
class Saving:
    """One way to run the processes.

    Attributes:
      hosts: that save memory, each its rows.
      host_bytes: memory that the first host needs.
      available: memory that it has.
      save_bytes: what the first host writes, the most of any.
      copy_seconds: training stops so long.
      write_seconds: and without --async_save so much longer.
      share: of time in saves, training waits for them; None where the time of
        a step is not known.
      async_share: of time in saves with --async_save; None likewise.
    """

    hosts: int
    host_bytes: float
    available: float
    save_bytes: float
    copy_seconds: float
    write_seconds: float
    share: float | None = None
    async_share: float | None = None

    @property
    def fits(self) -> bool:
        """Whether the host has that memory."""
        return self.host_bytes <= self.available


def hosts_of(options: PlanOptions) -> int:
    """Hosts of the plan's cores.

    Raises UserError: a host of which only some cores are used.
    """
    cores = HOSTS[options.topology][0]
    return tpu_costs.units(options.pod_cores, cores, "host")


def plan_job(
    options: PlanOptions, seconds: float | None, weight_bytes: float
) -> dict:
    """The job around a step.

    Args:
      options: of the plan, with `job`.
      seconds: of one step; None = not known, so that there are no shares of
        time and no hours.
      weight_bytes: of all weights, float32.

    Returns:
      JSON-able: `checkpoint_bytes`, `memory_bytes`, `device_hours`,
      `per_host` and `one_process` (`Saving`).
    """
    memory_of_host = HOSTS[options.topology][1]
    hosts = hosts_of(options)
    batch = options.rows * options.pod_cores
    element = 4 if options.precision == "float32" else 2
    config = options.config
    memory = batch * config.n_layer * options.mem_len * config.d_model * element
    weights = 3 * weight_bytes  # and both slots
    job = options.job

    def saving(count: int) -> Saving:
        rows = batch / count
        save = weights + memory / count
        copy = save / (job.copy_gb_per_second * GB)
        write = save / (job.disk_gb_per_second * GB)
        shares: tuple[float, ...] = ()
        if seconds:
            # A write that is not done at the next save is waited for.
            interval = job.save_steps * seconds
            waits = copy + write, copy + max(0.0, write - interval)
            shares = tuple(wait / (interval + wait) for wait in waits)
        return Saving(
            count,
            save + BASE_BYTES + reader_bytes(options, rows),
            job.host_memory_gb * GB or memory_of_host,
            save,
            copy,
            write,
            *shares,
        )

    per_host, alone = saving(hosts), saving(1)
    plan = {
        "checkpoint_bytes": weights + memory,
        "memory_bytes": memory,
        "weights_and_slots_bytes": weights,
        "hosts": hosts,
        "per_host": dataclasses.asdict(per_host) | {"fits": per_host.fits},
        "one_process": dataclasses.asdict(alone) | {"fits": alone.fits},
    }
    if not seconds:
        return plan
    chip = tpu_costs.CHIPS[options.topology]
    chips = tpu_costs.units(options.pod_cores, chip.cores, "chip")
    hours = options.train_steps * seconds / 3600 / (1 - per_host.async_share)
    return plan | {
        "device_hours": chips * hours,
        "core_hours": options.pod_cores * hours,
    }


def reader_bytes(options: PlanOptions, rows: float) -> float:
    """Batches that a process keeps ready, decoded.

    A chunk is being read, one is given out, and more batches are ready.
    """
    sizes = {"B": 1, "T": options.seq_len, "P": options.num_predict}
    row = sum(
        np.prod([sizes[letter] for letter in field.shape.split()])
        * np.dtype(field.dtype).itemsize
        for field in schema.PRETRAIN_BATCH.values()
    )
    ahead, ready = ReaderOptions.read_ahead, ReaderOptions.prefetch
    return float(row * rows * (2 * ahead + ready))


def describe_job(plan: dict, options: PlanOptions) -> list[str]:
    """Lines of the report."""
    job = options.job
    lines = [
        f"checkpoint: {plan['checkpoint_bytes'] / GB:.1f} GB (weights and "
        f"slots {plan['weights_and_slots_bytes'] / GB:.1f}, memory "
        f"{plan['memory_bytes'] / GB:.1f}), every {job.save_steps} steps",
    ]
    for name, title in (
        ("per_host", f"one process on each of {plan['hosts']} hosts"),
        ("one_process", "one process for all hosts"),
    ):
        s = plan[name]
        lines.append(
            f"{title}: its memory {s['host_bytes'] / GB:.1f} of "
            f"{s['available'] / GB:.0f} GB: "
            + ("fits" if s["fits"] else "DOES NOT FIT")
            + f"; a save writes {s['save_bytes'] / GB:.1f} GB in "
            f"{s['write_seconds']:.1f} s at {job.disk_gb_per_second:g} GB/s "
            f"after {s['copy_seconds']:.1f} s of copying"
            + (
                f"; of the time in saves {s['share']:.2%}, with --async_save "
                f"{s['async_share']:.2%}"
                if s["share"]
                else ""
            )
        )
    if "device_hours" not in plan:
        return [*lines, "the rest needs the time of a step (--step_seconds)"]
    return [
        *lines,
        f"device-hours: {plan['device_hours']:,.0f} of chips, "
        f"{plan['core_hours']:,.0f} of cores",
    ]
