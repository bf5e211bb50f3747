"""`up` on a disk without room: at its start, and later."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.kubelet.node.diskpressure import DiskPressure
from boilerhouse.platform.files.ballast import Ballast
from tests.absence import absent, sandbox_unavailable
from tests.e2e.served_fixture import program
from tests.e2e.snapshots_fixture import soon
from tests.e2e.tenants import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SIZE = 3 << 20


@pytest.fixture
async def sandboxes(tmp_path: Path) -> None:
    problems = await sandbox_unavailable(tmp_path / "check", SystemClock())
    if problems:
        absent(f"containers cannot run here: {problems[0]}")


def options(disk: Path) -> tuple[str, ...]:
    return ("--data", str(disk / "data"), "--port", "0", "--kube-port", "0")


@pytest.mark.usefixtures("sandboxes")
@pytest.mark.parametrize("room", [200, 400, 500, 600, 700])
def test_a_start_without_room_is_refused_in_one_sentence(small_disk: Path, room: int) -> None:
    """Wherever it comes to its end: what is wrong with which directory, and what to do."""
    (small_disk / "ballast").write_bytes(bytes(SIZE - (room << 10)))
    command = [sys.executable, "-m", "boilerhouse.main", "up", *options(small_disk)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert line.startswith(f"boilerhouse: {small_disk / 'data'}")
    assert "No space left on device" in line
    assert "[" not in line and "Traceback" not in line


@pytest.mark.usefixtures("sandboxes")
def test_health_tells_of_a_full_disk_until_there_is_room(small_disk: Path) -> None:
    """503 with the reason while writes fail, ok again without a restart: nothing is kept back."""
    with (
        program("up", *options(small_disk), "--reserve", "0", said="up.serving", env={}) as serving,
        httpx2.Client(base_url=serving["api"], timeout=60) as http,
    ):

        def health() -> Any:
            return http.get("/api/v1/health")

        soon("it is well", lambda: health().status_code == 200)
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(4096))
        soon("it is not well", lambda: health().status_code == 503, 40)
        told = health().json()
        assert told["code"] == "Unavailable"
        assert "writes fail" in told["error"] and "full" in told["error"], told
        ballast.unlink()
        soon("it is well again", lambda: health().status_code == 200, 40)


async def test_a_disk_with_little_room_is_pressed_from_the_start(small_disk: Path) -> None:
    """A part of the reserve is kept back all the same; the words say which disk."""
    ballast = Ballast(small_disk, 2 << 20)
    disk = DiskPressure(small_disk, ballast)
    await disk.open()
    assert disk.pressed and disk.growth is not None
    assert str(small_disk) in disk.words
    running = asyncio.create_task(disk.run())

    async def begun() -> bool:
        return ballast.missing < ballast.count

    await eventually(begun)
    running.cancel()
    await asyncio.wait({running})
    assert ballast.missing > ballast.count // 2
    await disk.close()
    assert not ballast.directory.exists()
