"""How PyTorch runs here, the same for all its systems. No TensorFlow."""

from collections.abc import Callable

import torch

from benchmarks.systems.workloads import threads


def wrapper(options: dict) -> Callable:
    """What a model is called through; `options`: compile, precision.

    Under "mixed_bfloat16" that is `torch.autocast`, inside of which PyTorch
    takes bfloat16 where its lists say so; parameters stay float32. Under
    "bfloat16" the parameters themselves are cast, once.
    """
    torch.set_num_threads(threads())

    def wrap(model):
        if options.get("precision") == "bfloat16":
            model = model.to(torch.bfloat16)
        call = torch.compile(model) if options.get("compile") else model
        if options.get("precision") != "mixed_bfloat16":
            return call

        def reduced(*args, **kwargs):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return call(*args, **kwargs)

        return reduced

    return wrap


def about() -> dict:
    """Versions, threads, kernels and the compiler's settings."""
    from torch._inductor import config as inductor

    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "oneDNN": torch.backends.mkldnn.is_available(),
        "kernels": torch.backends.cpu.get_cpu_capability(),
        "AMX": bool(torch.cpu._is_amx_tile_supported()),
        "inductor max_autotune": inductor.max_autotune,
        "inductor freezing": inductor.freezing,
        "inductor cpp_wrapper": inductor.cpp_wrapper,
    }
