"""One encoder with a head per task."""

from common.heads import HEADS
from common.references import resolve
from modeling.models.task_model import TaskModel


class MultiTaskModel(TaskModel):
    """Task models that share their encoder.

    `tasks` are name -> {"head": a key of `common.heads.HEADS`, and keyword
    arguments of its model}. `heads[name]` is the task model of a task: its own
    pooler and output layer on the common encoder. By canonical name its
    variables are the original's with the task's name behind the first scope
    (`model/classification_mnli/logit/kernel`).
    """

    def __init__(self, config, tasks: dict[str, dict], **kwargs):
        super().__init__(config, **kwargs)
        # Keras would wrap a dictionary and save it as layers.
        self._tasks = tuple(
            (name, tuple(options.items())) for name, options in tasks.items()
        )
        self.heads = {}
        for name, options in tasks.items():
            row = HEADS[options["head"]]
            further = {k: v for k, v in options.items() if k != "head"}
            self.heads[name] = resolve(row.model)(
                self.config,
                encoder=self.encoder,
                **row.model_options | further,
                name=f"head_{len(self.heads)}",
                dtype=self.dtype_policy,
            )

    def call(self, input_ids, task: str, **arguments):
        """What the head of `task` says of rows; arguments as its own."""
        return self.heads[task](input_ids, **arguments)

    def head_variable_paths(self):
        paths = {}
        for task, model in self.heads.items():
            for name, path in model.head_variable_paths().items():
                paths[_of_task(name, task)] = f"heads/{task}/{path}"
        return paths

    def task_variable_names(self) -> dict[str, list[str]]:
        """Task -> canonical names of what it does not share."""
        return {
            task: [_of_task(name, task) for name in model.head_variable_paths()]
            for task, model in self.heads.items()
        }

    def names_alone(self) -> dict[str, str]:
        """A pooler's canonical name -> that of a model of its task alone.

        Released weights hold one, with which every task begins.
        """
        return {
            _of_task(name, task): name
            for task, model in self.heads.items()
            for name in model.head_variable_paths()
            if "/logit/" not in name
        }

    def paths_elsewhere(self):
        paths = {}
        for model in self.heads.values():
            own = model.head_variable_paths().items()
            paths |= {path: n for n, path in own if "/logit/" not in n}
        for model in self.heads.values():
            paths |= model.paths_elsewhere()
        return paths

    @property
    def tasks(self) -> dict[str, dict]:
        """As given."""
        return {name: dict(options) for name, options in self._tasks}


def _of_task(name: str, task: str) -> str:
    """The canonical name of a head's variable among several heads."""
    own, scope, *rest = name.split("/")
    if own != "model":  # a pooler with the encoder's own name
        return f"model/classification_{task}/{name}"
    return "/".join([own, f"{scope}_{task}", *rest])
