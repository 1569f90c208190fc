"""Kills a training run at random moments and starts it again until it ends.

    python -m tools.soak.kill_runs --output_dir=OUT --kills=30

Every start is the same `run_pretrain.py` command. At the end the loss log must
be byte for byte that of a run that was never killed, and so must every tensor
of the last checkpoint. Half of the kills are aimed at a save: they come when
a file of an unfinished checkpoint appears.
"""

import argparse
import dataclasses
import sys

from tools.soak import starting
from tools.soak.killing import soak

STEPS = 200


def main() -> None:
    """Prints the outcome; exit status 1 when something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    starting.preload()
    outcome = soak(
        arguments.output_dir, arguments.kills, arguments.steps, arguments.seed
    )
    for name, value in dataclasses.asdict(outcome).items():
        print(f"{name}: {value}")
    if not (outcome.same_log and outcome.same_weights):
        sys.exit(1)


if __name__ == "__main__":
    main()
