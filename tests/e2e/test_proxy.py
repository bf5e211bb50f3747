"""A web page of a tenant, through the API: in use it is not put to sleep, asleep it is woken."""

from __future__ import annotations

import time

import pytest

from tests.e2e.snapshots_fixture import Home

pytestmark = pytest.mark.timeout(300)

_SERVES = {
    # The machine's own programs, and what busybox has.
    "embedded": "exec python3 -m http.server 8080 --directory /workspace",
    "node": "exec httpd -f -p 8080 -h /workspace",
}


def test_a_page_in_use_and_asleep(home: Home) -> None:
    """Asked again and again it stays; left alone it is hibernated; asked then, it answers."""
    home.workload(
        "pages",
        network={"access": "none", "expose": [{"guest": 8080}]},
        entrypoint={"cmd": "/bin/sh", "args": ["-c", _SERVES[home.kind]]},
        idle={"timeoutSeconds": 8},
    )
    instance = home.claim("paul", "pages", "cold")
    home.sh(instance, "echo hello > /workspace/index.html; echo there > /workspace/file")
    page = "/tenants/paul/workloads/pages/proxy/"
    end = time.monotonic() + 14
    while time.monotonic() < end:
        answer = home.ask("GET", page)
        assert (answer.status_code, answer.text) == (200, "hello\n")
        time.sleep(0.5)
    assert home.held("paul")["instanceId"] == instance
    home.in_phase("paul", "Released")
    assert home.pod(instance) is None
    answer = home.ask("GET", f"{page}file", timeout=90)
    assert (answer.status_code, answer.text) == (200, "there\n"), answer.text
    assert home.ask("GET", f"{page}nothing").status_code == 404
    home.released("paul", "pages")
    assert home.ask("GET", page).json()["code"] == "ClaimNotFound"
