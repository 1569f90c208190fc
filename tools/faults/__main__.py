"""Faults x commands: prints the table, as Markdown.

    python -m tools.faults [--only=run_classifier] [--lines]

Every command meets every fault of the kinds of input that it reads: it must
end with one line that names the file, without a stack trace or lines of
libraries, and leave nothing half-written. Ends with status 1 when one did not.
"""

import argparse
import re
import sys
import tempfile

from tools.faults import damage, run, table


def main() -> None:
    """Prints the table and what was not held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression")
    parser.add_argument("--lines", action="store_true", help="print the errors")
    arguments = parser.parse_args()
    wanted = [c for c in table.cells() if re.search(arguments.only, str(c))]
    outcomes = []
    with tempfile.TemporaryDirectory() as folder, run.server(folder) as server:
        for cell in wanted:
            outcome = server.try_cell(cell)
            outcomes.append(outcome)
            if arguments.lines or outcome.problem():
                said = outcome.problem() or outcome.line
                print(f"{cell} ({outcome.seconds:.1f} s): {said}", flush=True)
    print("\n".join(markdown(outcomes)))
    if any(o.problem() for o in outcomes):
        sys.exit(1)


def markdown(outcomes: list[run.Outcome]) -> list[str]:
    """A row per command: what was spoiled, and how many faults were held."""
    rows: dict[str, dict] = {}
    for outcome in outcomes:
        cell = outcome.cell
        by_input = rows.setdefault(cell.command, {})
        by_input.setdefault(cell.input or cell.fault, []).append(outcome)
    lines = ["| command | what is wrong: held of tried |", "|---|---|"]
    for command, by_input in rows.items():
        shown = ", ".join(f"{name} {_count(o)}" for name, o in by_input.items())
        lines.append(f"| `{command}` | {shown} |")
    lines += ["", f"{_count(outcomes)} held; the faults of each kind of input:"]
    kinds = {k: list(v) for k, v in damage.KINDS.items()}
    kinds["output"] = list(table.OF_OUTPUT)
    lines += ["", "| kind | faults |", "|---|---|"]
    lines += [f"| {k} | {', '.join(faults)} |" for k, faults in kinds.items()]
    return lines


def _count(outcomes: list[run.Outcome]) -> str:
    tried = [o for o in outcomes if not o.skipped]
    return f"{sum(not o.problem() for o in tried)}/{len(tried)}"


if __name__ == "__main__":
    main()
