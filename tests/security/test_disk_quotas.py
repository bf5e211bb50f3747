"""Project quotas on real ext4 and xfs, in a kernel that has them: User Mode Linux.

linux.uml (Debian: user-mode-linux, with xfsprogs) ─► quotas_inside.py ─► what each check found
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.security.quotas_inside import LIMIT, MARK

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).parents[2]
NEEDED = ("linux.uml", "mkfs.ext4", "mkfs.xfs", "ip")
Found = dict[tuple[str, str], Any]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What the checks found, by file system and check."""
    missing = [name for name in NEEDED if shutil.which(name, path=_path()) is None]
    if missing:
        pytest.skip(
            f"not installed: {', '.join(missing)} (user-mode-linux, e2fsprogs, xfsprogs, iproute2)"
        )
    directory = tmp_path_factory.mktemp("uml")
    init = directory / "init"
    init.write_text(
        "#!/bin/sh\n"
        f"cd {REPOSITORY}\n"
        f"PYTHONPATH=src:. exec {sys.executable} -B -m tests.security.quotas_inside\n"
    )
    init.chmod(0o755)
    command = [
        *("linux.uml", "mem=900M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw"),
        *(f"init={init}", "con=null", "con0=fd:0,fd:1", "quiet"),
    ]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=500,
        check=False,
        env={"PATH": _path(), "HOME": str(directory), "TMPDIR": str(directory)},
    )
    told = done.stdout.decode(errors="replace")
    answers: Found = {}
    for line in told.splitlines():
        if line.startswith(MARK):
            system, check, what = json.loads(line.removeprefix(MARK))
            answers[system, check] = what
    assert answers, told
    return answers


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


REFUSED = {"ext4": "EDQUOT", "xfs": "ENOSPC"}
SYSTEMS = pytest.mark.parametrize("system", REFUSED)


@SYSTEMS
def test_quotas_are_found_set_and_read_back(found: Found, system: str) -> None:
    """The trial leaves nothing behind."""
    assert found[system, "unavailable"] == ""
    assert found[system, "left"] in ([], ["lost+found"])
    assert found[system, "reads_back"] == [LIMIT.bytes, LIMIT.inodes, 1]


def test_quotas_that_are_counted_and_not_enforced_are_none(found: Found) -> None:
    """An ext4 that has the feature and is mounted without the option, and one without both."""
    assert found["counted", "unavailable"] == "project quotas are not switched on"
    assert "no project quotas" in found["plain", "unavailable"]


@SYSTEMS
def test_a_tenant_gets_an_error_past_its_limit(found: Found, system: str) -> None:
    """At any depth, of bytes and of files, in an image's layer; near enough to 100 % to be told."""
    told = found[system, "past_the_limit"]
    assert (told["said"], told["beside"]) == (REFUSED[system], "")
    assert 0.99 <= told["share"] <= 1.01
    assert found[system, "too_many_files"] == [LIMIT.inodes - 1, REFUSED[system]]
    assert found[system, "deep_path"] == REFUSED[system]
    assert found[system, "upper_layer"] == [REFUSED[system], ""]


@SYSTEMS
def test_a_file_with_many_names_counts_once(found: Found, system: str) -> None:
    """As in a count by walking."""
    assert found[system, "hard_links"] == {"said": "", "mib": 10, "inodes": 2}


@SYSTEMS
def test_a_limit_is_raised_lifted_and_taken_away(found: Found, system: str) -> None:
    """More than the limit can be restored; then the tenant may remove, and write again."""
    assert found[system, "raised"] == [REFUSED[system], ""]
    assert found[system, "restored_past_it"] == ["", 40, REFUSED[system], ""]
    assert found[system, "cleared"] == [None, ""]


@SYSTEMS
def test_a_tenant_cannot_leave_its_project(found: Found, system: str) -> None:
    """From a user namespace, where all tenants are."""
    assert found[system, "tenant_changes_its_project"] == ["EINVAL"] * 3


@SYSTEMS
def test_our_own_files_beside_a_full_volume_can_be_written(found: Found, system: str) -> None:
    """And what is older than quotas gets none."""
    assert found[system, "agent_state"] == ""
    assert found[system, "not_from_the_start"] is True


@SYSTEMS
def test_a_pod_s_directories_through_the_kubelet(found: Found, system: str) -> None:
    """Volume and layer share one limit; the next Pod of that number begins without it."""
    told = found[system, "pod"]
    assert told["said"] == REFUSED[system]
    assert told["layer"] == REFUSED[system]
    assert told["state"] == ""
    assert told["after"] is None


SAID = {"ext4": "Disk quota exceeded", "xfs": "No space left on device"}


@SYSTEMS
def test_a_tenant_of_a_live_up_gets_an_error_and_runs_on(found: Found, system: str) -> None:
    """Its claim says so and stays ready; with files removed it writes again."""
    told = found[system, "live"]
    assert SAID[system] in told["said"], told
    assert told["told"]["DiskFull"] == "QuotaReached"
    assert told["told"]["InstanceReady"] == "Ready"
    assert told["kept"].strip() == "precious"
