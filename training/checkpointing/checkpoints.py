"""What `model_dir` holds of a model: checkpoints and their configuration.

Checkpoints are atomic and rotating. The chief writes; the rows of the
recurrent memory every process does that has them.
"""

import dataclasses
import functools
import os
import re
import threading
from collections.abc import Iterator

import tensorflow as tf

from common import files
from common.errors import UserError
from modeling.checkpoints import folder as checkpoint_folder
from modeling.checkpoints import hf_files, native, restore, weights
from modeling.encoders import registry
from training.checkpointing import memory_files, saving
from training.checkpointing.background import Background
from training.checkpointing.host_copy import host_copy
from training.objectives.contract import Objective
from training.recurrent.memory_state import RecurrentMemory
from training.run_options import RunOptions
from training.strategy import Meeting

# Seconds that an unfinished save gets when the run ends with an error.
PATIENCE = 30.0
PREFIX = "model.ckpt"


class RunCheckpoints:
    """Saves and restores everything that a run is.

    Files appear under temporary names, the recurrent memory before the
    weights, and the `checkpoint` file is replaced at the end, so a process
    killed at any moment leaves the last whole one. All processes of a run must
    call `save` and `wait` at the same steps, and meet (a step will do) between
    making this and the first of them: the chief removes what it finds.

    The `items` are attribute name -> trackable, `model` among them. Of the
    checkpoints `max_save` are kept, 0 = all. The chief writes weights and
    `checkpoint`; the rows of the memory are saved, each by the process that has
    it. `in_background` copies what is saved and writes it beside the next
    steps.
    """

    def __init__(
        self,
        model_dir: str,
        items: dict,
        max_save: int,
        chief: bool = True,
        memory: RecurrentMemory | None = None,
        meeting: Meeting | None = None,
        in_background: bool = False,
    ):
        self.model_dir = model_dir
        self._chief = chief
        self._max_save = max_save
        self._memory, self._meeting = memory, meeting
        self._in_background = in_background
        self._background = Background()
        self._given_up = threading.Event()
        self._checkpoint = tf.train.Checkpoint(**items)
        self._newest = self.latest()
        self._kept: list[str] = []
        if chief:
            tf.io.gfile.makedirs(model_dir)
            self._remove_unfinished()
            self._kept = self._whole()

    def latest(self) -> str | None:
        """Prefix of the newest whole checkpoint, None where none ever was.

        Raises UserError: there are some, but none is whole.
        """
        return checkpoint_folder.newest_prefix(self.model_dir, PREFIX)

    def restore(self, path: str, items: dict | None = None) -> None:
        """Restores all items from `path`, or those given, all of them or none.

        Raises UserError: unreadable, or of another model or optimizer.
        """
        try:
            root = tf.train.Checkpoint(**items) if items else self._checkpoint
            status = root.read(native.readable(path))
            status.assert_existing_objects_matched()
            status.expect_partial()
        # Its readers raise Python's errors, too: IndexError for a cut file.
        except (
            tf.errors.OpError,
            AssertionError,
            ValueError,
            LookupError,
            OSError,
        ) as e:
            text = saving.shorten(e)
            raise UserError(
                f"{path} does not fit this run or is damaged ({text}); use the "
                "flags it was made with, or another --model_dir; older "
                f"checkpoints in `checkpoint` of {self.model_dir} may be whole"
            ) from e

    def save(self, step: int) -> str | None:
        """Saves as number `step`, or begins to; the prefix, None if not chief.

        Raises UserError: the disk is full or cannot be written, now or at the
        save before.
        """
        self.wait()
        path = os.path.join(self.model_dir, f"{PREFIX}-{step}")
        if path != self._newest:
            rows = self._memory.to_host() if self._memory else None
            source = self._checkpoint
            if self._in_background and self._chief:
                source = host_copy(source)
            before, self._newest = self._newest, path
            write = functools.partial(self._write, path, source, rows, before)
            shared = rows is not None and self._meeting is not None
            if self._in_background or shared:
                self._background.start(write)
                if not self._in_background:
                    self.wait()
            else:
                write()
        return path if self._chief else None

    def check(self) -> None:
        """Raises what a save in the background has met with so far."""
        self._background.check()

    def wait(self) -> None:
        """Until the last save is whole.

        Raises UserError: it failed; tf.errors.OpError: another process is gone.
        """
        if not self._background.busy:
            return
        if self._memory and self._meeting:
            if not self._chief:
                self._background.wait()
            # From here on the rows of all other processes are there, or
            # their processes are gone and the meeting says so.
            self._meeting.total(0.0)
        self._background.wait()

    def finish(self) -> None:
        """After the last save and evaluation: the folder is whole for all.

        What comes next reads it, in every process: without the chief's last
        checkpoint, `best/` and log another one would take other weights.
        Raises as `wait`.
        """
        self.wait()
        if self._meeting:
            self._meeting.total(0.0)

    def close(self) -> None:
        """After an error: what is being written may become whole."""
        limit = PATIENCE if self._meeting else None
        if not self._background.close(limit):
            self._given_up.set()

    def _write(self, path, source, rows, before) -> None:
        folder = memory_files.folder_of(path)
        try:
            if rows:
                memory_files.write(folder, rows)
            if not self._chief:
                return
            if rows and not memory_files.write_index(
                folder, self._memory.rows, self._given_up
            ):
                return
            source.write(path)
            self._publish(path)
        except (tf.errors.OpError, OSError) as e:
            self._newest = before
            raise saving.failed(path, before, e, remove=self._chief) from e

    def _publish(self, path: str) -> None:
        """From here on `path` is the newest; the oldest are removed."""
        paths = [*(p for p in self._kept if p != path), path]
        paths = paths[-self._max_save :] if self._max_save else paths
        checkpoint_folder.publish(self.model_dir, paths)
        self._kept = paths
        names = {os.path.basename(p) for p in paths}
        newest = checkpoint_folder.step_of(path)
        for name, step, old in self._files():
            # A faster process may have begun with the rows of the next one.
            if name not in names and step <= newest:
                saving.remove(old)

    def _remove_unfinished(self) -> None:
        """Deletes what a killed process left of the save it was making.

        And of an old one that it was removing. What else is not whole stays
        until a save of its step or a later one.
        """
        saving.remove_unfinished(self.model_dir, PREFIX)
        there = list(self._files())
        weights = {
            name for name, _, path in there if not path.endswith(".memory")
        }
        newest = checkpoint_folder.step_of(self._newest or "")
        whole = {os.path.basename(path) for path in self._whole()}
        for name, step, path in there:
            if name not in weights or (step < newest and name not in whole):
                saving.remove(path)

    def _whole(self) -> list[str]:
        return checkpoint_folder.whole(self.model_dir, PREFIX)

    def _files(self) -> Iterator[tuple[str, int, str]]:
        """(name of the checkpoint, its step, path) of everything of one."""
        ending = r"(_temp|\.index|\.memory|\.data-.*)"
        pattern = re.compile(rf"({re.escape(PREFIX)}-(\d+)){ending}")
        for name in files.list_names(self.model_dir):
            if match := pattern.match(name):
                path = os.path.join(self.model_dir, name)
                yield match[1], int(match[2]), path


def check_folder(model_dir: str, objective: Objective) -> None:
    """Raises UserError: what is in `model_dir` forbids a training there."""
    _check_no_release(model_dir)
    check_config(model_dir, objective)
    _check_no_other(model_dir, objective)


def _check_no_release(model_dir: str) -> None:
    """A training must not write beside the weights of a release.

    Commands that read a folder take those, whatever was trained there. Raises
    UserError: there are some.
    """
    if form := hf_files.form_of(model_dir):
        raise UserError(
            f"--model_dir={model_dir} holds {form}, which readers would take "
            "in the place of what is trained: give a new folder, and this one "
            "as --init_checkpoint"
        )


def _check_no_other(model_dir: str, objective: Objective) -> None:
    """Nor beside the configuration of another encoder, which names its file.

    A run that died before its first checkpoint may have left it, and readers
    would take it for that of the weights. Raises UserError: there is one.
    """
    path = registry.config_file_in(model_dir)
    if path is None:
        return
    own = registry.config_path(model_dir, _saved_config(objective))
    if path != own:
        raise UserError(
            f"{path} is of another encoder, and readers would take it in the "
            f"place of {os.path.basename(own)}: remove it, or give another "
            "--model_dir"
        )


def check_config(model_dir: str, objective: Objective) -> None:
    """`model_dir` must hold no model of another architecture.

    Raises UserError, which lists every field, wanted against found.
    """
    path = registry.config_file_in(model_dir)
    # Without a checkpoint the folder binds nobody to a configuration.
    if path is None or not checkpoint_folder.newest(model_dir, PREFIX):
        return
    wanted = _saved_config(objective).architecture()
    there = registry.read_config(path).architecture()
    wrong = [
        f"`{name}` wanted {value}, found {there.get(name)}"
        for name, value in wanted.items()
        if (value or 0) != (there.get(name) or 0)
    ]
    if wrong:
        raise UserError(
            f"{path} is of another model: {'; '.join(wrong)}; use another "
            "--model_dir or the flags it was made with"
        )


def write_config(model_dir: str, objective: Objective) -> None:
    """The configuration beside the weights."""
    registry.write_config(model_dir, _saved_config(objective))


def _saved_config(objective: Objective):
    return objective.saved_config or objective.config


def weights_to_read(options: RunOptions) -> restore.Source:
    """What evaluation and prediction use: the folder's weights, or the start's.

    See `modeling.checkpoints.weights.choose`. Raises UserError: there are none.
    """
    chosen = weights.choose(options.model_dir, options.checkpoint_choice)
    if chosen:
        source = restore.resolve(chosen.path)
        return dataclasses.replace(source, why=chosen.why)
    if options.init_checkpoint:
        return restore.resolve(
            options.init_checkpoint,
            options.checkpoint_choice,
            options.init_part,
        )
    raise UserError(
        f"{options.model_dir} holds no checkpoint: train first or give "
        "--init_checkpoint"
    )


def restore_weights(strategy, model, path, require: str) -> None:
    """Weights from any checkpoint that `modeling.checkpoints` reads."""
    with strategy.scope():
        restore.restore(model, path, require=require)
