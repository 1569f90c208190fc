"""The blocks of a build on Apache Beam, for `--runner=beam`.

The same block builder runs in a Beam `DoFn`, so the files are the same bytes
as those of a local run; the launching process writes plan and manifest. Which
runner (Dataflow, Flink, Spark, DirectRunner) is Beam's own option. Workers on
other machines need the input, the vocabulary and the output on paths that all
of them reach (`gs://...`).
"""

import re
import shlex
from collections.abc import Callable

from common import optional
from common.errors import UserError
from data.corpus.documents import CorpusError
from data.records.layout import Plan
from data.records.options import FactoryOptions


def run(
    builder: type,
    options: FactoryOptions,
    plan: Plan,
    blocks: list[int],
    say: Callable[[str], None] = print,
) -> None:
    """Builds blocks and waits until all are there.

    Raises UserError: Beam is not installed, does not take its options, or what
    a worker raised.
    """
    beam = optional.load(
        "apache_beam", "--runner=beam", "requirements-beam.txt"
    )
    from apache_beam.options.pipeline_options import PipelineOptions

    class BuildBlock(beam.DoFn):
        """Block number -> its summary; one builder per worker."""

        def setup(self):
            self._builder = builder(options, plan)

        def process(self, block):
            self._builder.build(block)
            yield block

    try:
        arguments = PipelineOptions(
            shlex.split(options.beam_options), save_main_session=False
        )
        pipeline = beam.Pipeline(options=arguments)
    except ValueError as e:
        raise UserError(
            f"--beam_options={options.beam_options!r}: {_first_line(e)}"
        ) from e
    _say_unknown(arguments, say)
    try:
        with pipeline:
            _ = (
                pipeline
                | "blocks" >> beam.Create(blocks)
                | "spread" >> beam.Reshuffle()
                | "build" >> beam.ParDo(BuildBlock())
            )
    except Exception as e:
        # Of the worker's exception Beam keeps the text, not always the kind.
        raise _of_worker(e) or e from e


def _say_unknown(arguments, say) -> None:
    """A line about options that Beam would leave out without one."""
    known = arguments.get_all_options()
    every = arguments.get_all_options(retain_unknown_options=True)
    unknown = sorted(every.keys() - known.keys())
    if unknown:
        say(
            f"note: --beam_options: Beam's runners do not know "
            f"{', '.join('--' + name for name in unknown)}"
        )


def _of_worker(error: Exception) -> UserError | None:
    """The error that a user can put right, as raised in a worker."""
    if isinstance(error, UserError):
        return type(error)(_plain(str(error)))
    errors = re.findall(
        r"^[\w.]*(UserError|CorpusError): (.*)", str(error), re.M
    )
    if not errors:
        return None
    kind, text = errors[-1]
    kinds = {"CorpusError": CorpusError, "UserError": UserError}
    return kinds[kind](_plain(text))


def _plain(text: str) -> str:
    """Without the name of the step, which Beam puts behind."""
    return text.partition(" [while running")[0].strip()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
