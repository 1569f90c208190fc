"""The blocks of a build on Apache Beam, for `--runner=beam` (L2).

The same block builder runs in a Beam `DoFn`, so the files are the same bytes
as those of a local run; the launching process writes plan and manifest. Which
runner (Dataflow, Flink, Spark, DirectRunner) is Beam's own option. Workers on
other machines need the input, the vocabulary and the output on paths that all
of them reach (`gs://...`).
"""

import shlex

from common.errors import UserError
from data.records.layout import Plan
from data.records.options import FactoryOptions


def run(
    builder: type, options: FactoryOptions, plan: Plan, blocks: list[int]
) -> None:
    """Builds blocks and waits until all are there.

    Args:
      builder: class that builds blocks (`BlockBuilder`).
      options: of the build; `beam_options` is Beam's command line.
      plan: of the build.
      blocks: numbers of the blocks to build.

    Raises:
      UserError: Beam is not installed.
    """
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as e:
        raise UserError(
            "--runner=beam needs Apache Beam: pip install -r "
            "requirements-beam.txt"
        ) from e

    class BuildBlock(beam.DoFn):
        """Block number -> its summary; one builder per worker."""

        def setup(self):
            self._builder = builder(options, plan)

        def process(self, block):
            self._builder.build(block)
            yield block

    arguments = PipelineOptions(
        shlex.split(options.beam_options), save_main_session=False
    )
    with beam.Pipeline(options=arguments) as pipeline:
        _ = (
            pipeline
            | "blocks" >> beam.Create(blocks)
            | "spread" >> beam.Reshuffle()
            | "build" >> beam.ParDo(BuildBlock())
        )
