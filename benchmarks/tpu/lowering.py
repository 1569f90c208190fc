"""A `tf.function` through the public TPU compiler, without a TPU.

    function -> serialized HLO -> StableHLO -> executable for a described chip

The way is narrow: TensorFlow lowers for its CPU platform, jaxlib translates,
and the compile-only client of `libtpu` compiles for a topology that is only
described. It uses private modules of jax, so `requirements-plan.txt` pins it.
Nothing here runs the program.
"""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from typing import Any

from common.errors import UserError
from common.process import last_line

# No search for a TPU, its metadata server or its neighbours.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    # Several plans at a time; no device is touched.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_MIN_LOG_LEVEL": "3",
    "TPU_STDERR_LOG_LEVEL": "3",
}
# Described topologies: one host's chips, of which one core is compiled for.
TOPOLOGIES = {
    "v3": "v3:2x2x1",
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v6e": "v6e:2x2",
}


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the TPU compiler says about one program on one core.

    Attributes:
      flops: floating-point operations.
      bytes_accessed: bytes read and written in HBM by all its operations.
      optimal_seconds: the compiler's own estimate; not positive where it
        has none.
      argument_bytes: HBM of parameters and batch.
      output_bytes: HBM of results, aliased ones included.
      alias_bytes: results that take the place of arguments.
      temporary_bytes: HBM of everything in between.
      code_bytes: HBM of the program.
      compile_seconds: wall time of the compiler.
    """

    flops: float
    bytes_accessed: float
    optimal_seconds: float
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temporary_bytes: int
    code_bytes: int
    compile_seconds: float

    @property
    def hbm_bytes(self) -> int:
        """Arguments, temporaries, program and the results without a place."""
        return (
            self.argument_bytes
            + self.temporary_bytes
            + self.code_bytes
            + max(0, self.output_bytes - self.alias_bytes)
        )


def require_jax() -> None:
    """Raises UserError naming `requirements-plan.txt` without jax or libtpu."""
    os.environ.update(
        {k: v for k, v in ENVIRONMENT.items() if k not in os.environ}
    )
    try:
        import jax  # noqa: F401
        import libtpu  # noqa: F401
    except ImportError as e:
        raise UserError(
            f"the TPU plan needs `{e.name}`, which is not installed: run "
            "pip install -r requirements-plan.txt"
        ) from e


def lower(function: Any, *args: Any) -> bytes:
    """Serialized HLO of a `tf.function(jit_compile=True)`.

    Args:
      function: the compiled function; its variables become arguments and the
        assigned ones also results.
      *args: `tf.TensorSpec`s or tensors, shapes all static.
    """
    lowered = function.experimental_get_compiler_ir(*args)
    return lowered(stage="hlo_serialized", platform_name="CPU")


def fingerprint(hlo: bytes, topology: str) -> str:
    """Hexadecimal name of a program, its chip and its compiler.

    Serialized HLO of one program differs from process to process, in numbers
    that it gives its parts; its text in StableHLO does not.

    Args:
      hlo: from `lower`.
      topology: a key of `TOPOLOGIES`.

    Raises:
      UserError: missing jax.
    """
    require_jax()
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib import _jax
    from jaxlib.mlir import ir

    with jax_mlir.make_ir_context():
        module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(hlo))
        text = module.operation.get_asm(enable_debug_info=False)
    compiler = f"{topology} {metadata.version('libtpu')}\n"
    return hashlib.sha256((compiler + text).encode()).hexdigest()


def compile_for(hlo: bytes, topology: str) -> Compiled:
    """Compiles lowered HLO for one core of a chip.

    Args:
      hlo: from `lower`.
      topology: a key of `TOPOLOGIES`.

    Raises:
      UserError: unknown topology, missing jax.
      CompileError: the compiler refuses the program (e.g. it does not fit).
    """
    require_jax()
    if topology not in TOPOLOGIES:
        raise UserError(
            f"--topology must be one of {', '.join(TOPOLOGIES)}, found "
            f"{topology!r}"
        )
    from jax._src.interpreters import mlir as jax_mlir
    from jax._src.lib import xla_client
    from jax.experimental import topologies
    from jaxlib import _jax
    from jaxlib.mlir import ir

    described = topologies.get_topology_desc(
        platform="tpu", topology_name=TOPOLOGIES[topology]
    )
    device = described.devices[0]
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(hlo))
        _drop_copies(module, ir)
        _mark_aliases(module, ir)
        start = time.perf_counter()
        try:
            executable = device.client.compile(
                module,
                xla_client.DeviceList((device,)),
                xla_client.CompileOptions(),
            )
        except Exception as e:
            raise CompileError(_first_line(e)) from e
        seconds = time.perf_counter() - start
    return _read(executable, seconds)


def compile_apart(hlo: bytes, topology: str) -> Compiled:
    """`compile_for` in a process of its own, whose memory is returned.

    Raises:
      CompileError: the compiler refuses the program or its process dies.
    """
    with tempfile.NamedTemporaryFile(suffix=".hlo") as f:
        f.write(hlo)
        f.flush()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.tpu.compile", f.name, topology],
            capture_output=True,
            text=True,
            check=False,
        )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        last = last_line.of(done.returncode, done.stderr)
        raise CompileError(
            f"the compiler's process ended with {done.returncode}: {last}"
        )
    answer = json.loads(lines[-1])
    if "error" in answer:
        raise CompileError(answer["error"])
    return Compiled(**answer)


class CompileError(Exception):
    """The TPU compiler's refusal, first line."""


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__


def _drop_copies(module, ir) -> None:
    """Replaces `mhlo.copy`, made where a variable is assigned, by its operand.

    StableHLO has no such operation, and a functional program needs none.
    """
    copies = []

    def visit(operation):
        if operation.name == "mhlo.copy":
            copies.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for copy in copies:
        copy.results[0].replace_all_uses_with(copy.operands[0])
        copy.erase()


def _mark_aliases(module, ir) -> None:
    """Says which results take the place of which arguments.

    Without it an assigned variable counts twice. HLO keeps the pairs in an
    attribute of the module that the compile-only client does not read.
    """
    attributes = module.operation.attributes
    if "mhlo.input_output_alias" not in attributes:
        return
    pairs = {}
    for entry in ir.ArrayAttr(attributes["mhlo.input_output_alias"]):
        entry = ir.DictAttr(entry)
        alias = ir.DictAttr(entry["alias"])
        argument = ir.IntegerAttr(alias["parameter_number"]).value
        index = list(ir.DenseI64ArrayAttr(entry["output_index"]))
        # A program with one result has no tuple, hence an empty index.
        pairs[argument] = index[0] if index else 0
    main = next(
        f
        for f in module.body.operations
        if ir.StringAttr(f.attributes["sym_name"]).value == "main"
    )
    int32 = ir.IntegerType.get_signless(32)
    empty = ir.DictAttr.get({})
    count = len(main.regions[0].blocks[0].arguments)
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(
        [
            ir.DictAttr.get(
                {"tf.aliasing_output": ir.IntegerAttr.get(int32, pairs[i])}
            )
            if i in pairs
            else empty
            for i in range(count)
        ]
    )
    del attributes["mhlo.input_output_alias"]


def _read(executable, seconds: float) -> Compiled:
    cost = executable.cost_analysis()
    memory = executable.get_compiled_memory_stats()
    return Compiled(
        flops=float(cost.get("flops", 0.0)),
        bytes_accessed=float(cost.get("bytes accessed", 0.0)),
        optimal_seconds=float(cost.get("optimal_seconds", 0.0)),
        argument_bytes=memory.argument_size_in_bytes,
        output_bytes=memory.output_size_in_bytes,
        alias_bytes=memory.alias_size_in_bytes,
        temporary_bytes=memory.temp_size_in_bytes,
        code_bytes=memory.generated_code_size_in_bytes,
        compile_seconds=seconds,
    )
