"""Can this environment drive a TPU? Found out without loading TensorFlow.

TensorFlow's TPU build loads libtpu as soon as it is imported. A libtpu that
does not fit aborts the process, and on a machine without a TPU libtpu asks for
the metadata of a TPU VM for minutes. So commands ask here first.
"""

import csv
import glob
import os
import re
import socket
from importlib import metadata

from common.errors import UserError

# The pins of requirements-tpu.txt.
TENSORFLOW = "2.20.0"
LIBTPU = "0.0.21"
# The versions of libtpu that this TensorFlow was seen to load, at both ends
# and between; `tensorflow-tpu` itself asks for 0.0.14 or any later 0.0.x.
OLDEST_LIBTPU, NEWEST_LIBTPU = "0.0.14", "0.0.31"

# One process at a time holds it; libtpu does not start in a second one.
LOCK_FILE = "/tmp/libtpu_lockfile"
INSTALL = "bash scripts/tpu/install.sh"
# Google's network card, which virtual machines without a TPU have, too.
GOOGLE_VENDOR, NETWORK_CARD = "0x1ae0", "0x0042"


def is_local(address: str | None) -> bool:
    """Whether `--tpu` means the chips of this machine."""
    return address in (None, "", "local")


def check(address: str | None) -> None:
    """Refuses an environment that cannot drive the TPU at `address`.

    The checks are left out with XLNET_TPU_CHECK=0, that of devices also with
    TPU_SKIP_MDS_QUERY=1, which lets libtpu start without a TPU VM.

    Args:
      address: the value of `--tpu`.

    Raises:
      UserError: not the TPU build of TensorFlow, or overwritten by another
        one; a libtpu that it cannot load; no TPU in this machine, or nobody
        at the address.
    """
    if os.environ.get("XLNET_TPU_CHECK") == "0":
        return
    local = is_local(address)
    if not local:
        _check_reachable(address)
    build = version_of("tensorflow-tpu")
    if build is None and not local:
        return  # The hosts of the TPU have their own TensorFlow.
    _check_build(build)
    loads_driver = os.environ.get("TPU_LOAD_LIBRARY") != "0"
    if loads_driver:
        _check_libtpu()
    if not local:
        return
    if not loads_driver:
        raise UserError(
            "TPU_LOAD_LIBRARY=0 keeps TensorFlow from loading libtpu, without "
            "which it sees no TPU in this machine: unset it, or name the TPU "
            "of several hosts with --tpu=NAME"
        )
    if os.environ.get("TPU_SKIP_MDS_QUERY") != "1" and not tpu_devices():
        raise UserError(
            "no TPU in this machine: --tpu=local needs /dev/accel*, "
            "/dev/vfio/N or a PCI device of vendor "
            f"{GOOGLE_VENDOR}, and there is none ({describe()}); run this on "
            "a Cloud TPU VM (docs/guides/tpu.md), name another TPU with --tpu=NAME, "
            "or leave --use_tpu out"
        )


def describe() -> str:
    """The versions that matter, for messages."""
    names = ("tensorflow-tpu", "tensorflow", "libtpu")
    versions = [f"{n} {v}" for n in names if (v := version_of(n))]
    path = os.environ.get("TPU_LIBRARY_PATH")
    if path:
        versions.append(f"TPU_LIBRARY_PATH={path}")
    return ", ".join(versions) or "no TensorFlow"


def version_of(package: str) -> str | None:
    """The installed version, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def tpu_devices() -> list[str]:
    """What shows that this machine has TPU chips: device files, PCI devices."""
    devices = glob.glob("/dev/accel[0-9]*") + glob.glob("/dev/vfio/[0-9]*")
    for path in glob.glob("/sys/bus/pci/devices/*/vendor"):
        folder = os.path.dirname(path)
        if (
            _word(path) == GOOGLE_VENDOR
            and _word(os.path.join(folder, "device")) != NETWORK_CARD
        ):
            devices.append(folder)
    return sorted(devices)


def changed_libraries(package: str) -> list[str]:
    """A phrase for each shared library of a package that it did not bring.

    Two builds of TensorFlow lie in one folder, and the one installed last has
    overwritten the other's. Sizes are compared with the package's RECORD.
    """
    distribution = metadata.distribution(package)
    changed = []
    record = (distribution.read_text("RECORD") or "").splitlines()
    for name, _, size in csv.reader(record):
        if not re.search(r"\.so(\.\d+)*$", name) or not size:
            continue
        path = str(distribution.locate_file(name))
        there = os.path.getsize(path) if os.path.exists(path) else None
        if there != int(size):
            has = "is missing" if there is None else f"has {there:,d} bytes"
            changed.append(f"{name} {has} instead of {int(size):,d}")
    return changed


def check_packages(path: str) -> None:
    """Refuses an environment that is not the one of a list of exact pins.

    Of lines `name==version`. Raises UserError: a package is missing or another
    version, or TensorFlow's libraries are not those of the TPU build.
    """
    wrong = []
    with open(path) as f:
        lines = [line.split("#")[0].strip() for line in f]
    for line in filter(None, lines):
        name, _, wanted = line.partition("==")
        installed = version_of(name)
        if installed != wanted:
            wrong.append(f"{name} {wanted} (found {installed or 'none'})")
    if version_of("tensorflow"):
        wrong.append("no `tensorflow` beside `tensorflow-tpu`")
    if not wrong:
        wrong = changed_libraries("tensorflow-tpu")
    if wrong:
        raise UserError(
            f"this environment is not that of {path}: wanted "
            f"{'; '.join(wrong[:3])}"
            + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
            + f"; put it right with `{INSTALL}`"
        )


def _check_build(build: str | None) -> None:
    if build is None:
        raise UserError(
            f"--use_tpu needs the TPU build, tensorflow-tpu {TENSORFLOW}; "
            f"found {describe()}: on the TPU VM make the environment with "
            f"`{INSTALL}`"
        )
    if build != TENSORFLOW:
        raise UserError(
            f"--use_tpu needs tensorflow-tpu {TENSORFLOW}, found {describe()}: "
            f"install it with `{INSTALL}`"
        )
    changed = changed_libraries("tensorflow-tpu")
    if changed:
        raise UserError(
            f"another build overwrote the TPU build of TensorFlow: {changed[0]}"
            + (f" (and {len(changed) - 1} more)" if len(changed) > 1 else "")
            + f"; found {describe()}: put it right with `{INSTALL}`"
        )


def _check_libtpu() -> None:
    if os.environ.get("TPU_LIBRARY_PATH"):
        return  # The user's own; nothing says its version.
    installed = version_of("libtpu")
    if installed is None or not (
        _numbers(OLDEST_LIBTPU)
        <= _numbers(installed)
        <= _numbers(NEWEST_LIBTPU)
    ):
        raise UserError(
            f"tensorflow-tpu {TENSORFLOW} was seen to load libtpu "
            f"{OLDEST_LIBTPU} to {NEWEST_LIBTPU}; with others the process "
            f"aborts. Found libtpu {installed or 'not at all'}: install "
            f"libtpu=={LIBTPU} with `{INSTALL}`"
        )


def _check_reachable(address: str) -> None:
    """Of grpc:// addresses, where TensorFlow would wait without an end."""
    if not address.startswith("grpc://"):
        return
    for target in address.split(","):
        host, _, port = target.removeprefix("grpc://").partition(":")
        try:
            socket.create_connection((host, int(port or 8470)), 20).close()
        except (OSError, ValueError) as e:
            raise UserError(
                f"nobody answers at {host}:{port or 8470} of --tpu={address} "
                f"({e}): start scripts/tpu/worker.sh on every host of the TPU"
            ) from e


def _numbers(version: str) -> tuple[int, ...]:
    """ "0.0.21.dev1" -> (0, 0, 21)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(p) for p in match[0].split(".")) if match else ()


def _word(path: str) -> str:
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return ""
