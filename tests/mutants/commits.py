"""Mutants of what the snapshot store makes durable, each caught by a loss of power at one step."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_EVERY_STEP = "tests/faults/test_commit_powerloss.py::test_power_lost_at_every_step"
_AFTER_A_KILL = (
    "tests/faults/test_commit_powerloss.py::test_power_lost_after_a_helper_was_killed_at_every_step"
)

MUTANTS = {
    "bytes are renamed before they are safe": Mutant(
        "boilerhouse.node.helper.store.volume",
        "            os.fsync(self._file)\n",
        "",
        _EVERY_STEP + "[the first save]",
    ),
    "a version is current before it is safe": Mutant(
        "boilerhouse.node.helper.store.shelves",
        "                dst_dir_fd=directory,\n            )\n"
        "            self._volume.sync(directory)\n",
        "                dst_dir_fd=directory,\n            )\n",
        _EVERY_STEP + "[a save]",
    ),
    "pruned before the commit": Mutant(
        "boilerhouse.node.helper.store.store",
        "                shelf = self._shelves.point(where, stored, shelf)\n"
        "            self._remember(where, self._pruned(where, shelf, keep))\n"
        "            return saved(stored, current=replaces, unchanged=False)\n",
        "                shelf = self._pruned(where, shelf, keep)\n"
        "                shelf = self._shelves.point(where, stored, shelf)\n"
        "            self._remember(where, self._pruned(where, shelf, keep))\n"
        "            return saved(stored, current=replaces, unchanged=False)\n",
        _EVERY_STEP + "[a save that prunes]",
    ),
    "a deleted version comes back": Mutant(
        "boilerhouse.node.helper.store.store",
        "self._shelves.drop(where, shelf, gone, for_good=True)",
        "self._shelves.drop(where, shelf, gone)",
        _EVERY_STEP + "[one version deleted]",
    ),
    "a name without a manifest counts": Mutant(
        "boilerhouse.node.helper.store.shelves",
        " or inode in told):",
        "):",
        _EVERY_STEP + "[current made current]",
    ),
    "that current is gone is told too early": Mutant(
        "boilerhouse.node.helper.store.shelves",
        "                volume.sync(tenant)  # that it is not there is told as well\n",
        "",
        _AFTER_A_KILL + "[all versions deleted-True-1]",
    ),
}
