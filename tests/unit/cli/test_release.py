"""`boilerhouse release`, --retry and --force: what is said before something is lost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.unit.cli.test_remote import Shell
from tests.unit.edge.api.conftest import KEY, opened_rest
from tests.unit.edge.api.files import Files

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
async def shell(tmp_path: Path, files: Files) -> AsyncIterator[Shell]:
    async with (
        opened_rest(tmp_path / "data", KEY, files=files) as rest,
        rest.served() as address,
    ):
        await rest.world.ready_workload(filesystem={"overlayDirs": ["/workspace"]})
        shell = Shell(rest, address, tmp_path)
        assert (await shell.run("claim", "alice", "web")).exit_code == 0
        yield shell


async def test_a_release_says_that_the_files_are_saved(shell: Shell) -> None:
    """Exit code 0 and one line."""
    released = await shell.run("release", "alice", "web")
    assert (released.exit_code, released.stdout) == (
        0,
        "alice's web is released; its files are saved\n",
    )


async def test_a_failed_release_is_retried(shell: Shell, files: Files) -> None:
    """Exit code 1 and why; --retry does not wait for its turn."""
    files.failing = "the volume is full"
    failed = await shell.run("release", "alice", "web")
    assert (failed.exit_code, "the volume is full" in failed.stderr) == (1, True)
    files.failing, files.side_version = "", True
    done = await shell.run("release", "alice", "web", "--retry")
    assert done.exit_code == 0, done.output
    assert "beside the current version" in done.stdout


async def test_force_says_what_is_lost_and_asks(shell: Shell, files: Files) -> None:
    """Where nobody can be asked nothing is done without --yes."""
    files.failing = "the volume is full"
    await shell.run("release", "alice", "web")
    asked = await shell.run("release", "alice", "web", "--force")
    assert asked.exit_code == 2
    assert asked.stderr.startswith("lost: everything that the tenant wrote since")
    assert "nothing was done: say --yes" in asked.stderr
    assert (await shell.rest.get("/tenants/alice", headers=_key())).status_code == 200
    done = await shell.run("release", "alice", "web", "--force", "--yes", "-o", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["status"] == "released"


async def test_retry_and_force_exclude_each_other(shell: Shell) -> None:
    """A usage error, and nothing is sent."""
    both = await shell.run("release", "alice", "web", "--retry", "--force")
    assert both.exit_code == 2


def _key() -> dict[str, str]:
    return {"authorization": f"Bearer {KEY}"}
