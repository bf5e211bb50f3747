"""Mutants of what is judged in an archive, when it is put and when it is restored."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_JUDGEMENT = "tests/security/archives/test_judgement.py::"
_PARALLEL_WRITER = "tests/unit/platform/archive/test_parallel_writer.py::"

MUTANTS = {
    "an upload is only counted": Mutant(
        "boilerhouse.node.helper.operations.importing",
        "            entries.place(*found)\n",
        "            source.skip(found[2][2] + -found[0].size % 512)\n",
        "tests/unit/node/helper/test_archives.py::test_what_no_instance_would_take",
    ),
    "an upload may lie below a link": Mutant(
        "boilerhouse.platform.archive.sketch",
        "        if found == OTHER:\n            raise through_link(parts[: number + 1])\n",
        "",
        _JUDGEMENT + "test_what_could_never_be_restored",
    ),
    "implied directories do not count": Mutant(
        "boilerhouse.platform.archive.reader",
        "        self._implied += 1\n",
        "",
        _JUDGEMENT + "test_directories_that_a_long_name_implies_are_counted",
    ),
    "a file that is still to be made is not waited for": Mutant(
        "boilerhouse.platform.archive.tree",
        "        if name in here.under_way:\n            self._writer.settle()\n",
        "",
        _PARALLEL_WRITER + "test_two_leave_behind_what_one_does",
    ),
    "a directory is finished before its files are there": Mutant(
        "boilerhouse.platform.archive.parallel_writer",
        "        if not opened.batches:\n            opened.finish()\n",
        "        opened.finish()\n",
        _PARALLEL_WRITER + "test_a_directory_gets_its_time_after_its_last_file",
    ),
    "what no instance takes is tried again": Mutant(
        "boilerhouse.tenancy.snapshots.filing",
        '    "bad-archive": UnfitVersion,\n',
        "",
        "tests/unit/tenancy/snapshots/test_real_agent.py::test_what_no_instance_takes",
    ),
}
