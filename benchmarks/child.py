"""Command: one system of a comparison; `benchmarks.compare.harness` starts it.

    python -m benchmarks.child '{"module": "benchmarks.systems.peak",
        "options": {}, "workload": {"kind": "peak"}}'

Reads "step", "profile" and "stop" from standard input, answers in JSON lines.
Whatever libraries print goes to standard error.
"""

import argparse
import importlib
import json
import os
import sys
import time

from benchmarks.systems.workloads import Workload

SPEC = {"module", "options", "workload"}


def status_mb(name: str) -> float:
    """A field of this process's `/proc/self/status`, MB; 0 where there is none.

    `VmHWM` is the largest resident memory so far. `RssFile` is the resident
    part that maps files: the code of libraries.
    """
    with open("/proc/self/status", encoding="ascii") as f:
        for line in f:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return 0.0


def memory_mb() -> dict[str, float]:
    """Largest resident memory so far, and the same without mapped files."""
    peak = status_mb("VmHWM")
    return {"peak_mb": peak, "private_mb": peak - status_mb("RssFile")}


def operations(step) -> dict[str, list[float]]:
    """Thread time by type of operation; {} where TensorFlow does not run."""
    if "tensorflow" not in sys.modules:
        return {}
    from benchmarks.systems import op_times

    return op_times.traced(step)


def described(module) -> dict:
    """What the system says of its libraries, if it does."""
    return module.about() if hasattr(module, "about") else {}


def _spec(text: str) -> dict:
    spec = json.loads(text)
    if not isinstance(spec, dict) or not SPEC <= set(spec):
        raise ValueError(text)
    return spec


def _parsed() -> dict:
    """The one argument."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ", ".join(sorted(SPEC))
    parser.add_argument("spec", help=f"an object of JSON with {names}")
    text = parser.parse_args().spec
    try:
        return _spec(text)
    except ValueError:
        parser.error(f"wanted an object of JSON with {names}, found {text!r}")


def main() -> None:
    """Builds the system, warms it up and serves steps."""
    started = time.perf_counter()
    spec = _parsed()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(event: str, **fields) -> None:
        answers.write(json.dumps({"event": event} | fields) + "\n")
        answers.flush()

    try:
        module = importlib.import_module(spec["module"])
        imported, import_mb = time.perf_counter(), status_mb("VmHWM")
        step = module.build(Workload(**spec["workload"]), spec["options"])
        built = time.perf_counter()
        warm_up = []
        for _ in range(spec["options"].get("warm_up", 2)):
            start = time.perf_counter()
            step()
            warm_up.append(time.perf_counter() - start)
    except Exception as e:  # the parent shows it in the table
        say("error", message=f"{type(e).__name__}: {e}")
        raise
    say(
        "ready",
        import_s=imported - started,
        build_s=built - imported,
        warm_up_s=warm_up,
        import_mb=import_mb,
        about=described(module),
    )
    memory = {}
    for request in sys.stdin:
        if request.strip() == "stop":
            break
        if request.strip() == "profile":
            memory = memory_mb()  # a trace takes memory of its own
            say("profile", operations=operations(step))
            continue
        start, cpu = time.perf_counter(), time.process_time()
        try:
            loss = step()
        except Exception as e:  # e.g. out of memory: the others go on
            say("error", message=f"{type(e).__name__}: {e}")
            raise
        say(
            "step",
            seconds=time.perf_counter() - start,
            cpu_seconds=time.process_time() - cpu,
            loss=float(loss),
        )
    say("done", **(memory or memory_mb()))


if __name__ == "__main__":
    main()
