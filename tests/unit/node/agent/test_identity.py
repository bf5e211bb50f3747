"""Identity files: late, whole, once."""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path

from boilerhouse.node.agent.protocol import IdentityFiles
from boilerhouse.platform.rpc.refusal import Refused
from tests.unit.node.agent.agent_fixture import Rig, running

ANNA = IdentityFiles("anna", "shop", "claim-anna-shop-1", "bh1.uid.seal", "http://127.0.0.1:3000")
FILES = {"tenant", "workload", "claim", "token", "api-url"}


def read(directory: Path) -> dict[str, str]:
    return {name: (directory / name).read_text() for name in FILES}


async def test_the_files_appear(rig: Rig) -> None:
    """Told who it is, the instance has one file for each thing it was told, readable by anybody."""
    assert not any((rig.identity / name).exists() for name in FILES)
    told = await rig.ask("PUT", "/identity", body=ANNA.encode())
    assert told.status == 204
    assert read(rig.identity) == {
        "tenant": "anna",
        "workload": "shop",
        "claim": "claim-anna-shop-1",
        "token": "bh1.uid.seal",
        "api-url": "http://127.0.0.1:3000",
    }
    for name in FILES:
        assert stat.S_IMODE((rig.identity / name).stat().st_mode) == 0o444


async def test_a_strict_mask_does_not_hide_the_files(rig: Rig) -> None:
    """The tenant is another user: files and directory are readable whatever our own mask is."""
    before = os.umask(0o077)
    try:
        await rig.ask("PUT", "/identity", body=ANNA.encode())
    finally:
        os.umask(before)
    directory = (rig.identity / "tenant").resolve().parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755


async def test_the_same_again_changes_nothing(rig: Rig) -> None:
    """A repeated delivery leaves the very same files."""
    await rig.ask("PUT", "/identity", body=ANNA.encode())
    before = (rig.identity / "token").stat().st_ino
    assert (await rig.ask("PUT", "/identity", body=ANNA.encode())).status == 204
    assert (rig.identity / "token").stat().st_ino == before


async def test_an_instance_serves_one_tenant_ever(rig: Rig) -> None:
    """Another tenant, workload or claim is refused, and the files stay."""
    await rig.ask("PUT", "/identity", body=ANNA.encode())
    for other in (
        replace(ANNA, tenant="ben"),
        replace(ANNA, workload="blog"),
        replace(ANNA, claim="claim-anna-shop-2"),
    ):
        told = await rig.ask("PUT", "/identity", body=other.encode())
        assert told.status == 409
        assert Refused.of(409, told.body).code == "other-identity"
    assert read(rig.identity)["tenant"] == "anna"


async def test_the_refusal_outlives_the_agent(tmp_path: Path) -> None:
    """An agent that was restarted in the Pod still knows whose it is."""
    async with running(tmp_path) as first:
        await first.ask("PUT", "/identity", body=ANNA.encode())
    for name in ("o0", "o1"):
        (tmp_path / name).rmdir()
    (tmp_path / "identity").rename(tmp_path / "kept")
    async with running(tmp_path) as second:
        second.identity.rmdir()
        (tmp_path / "kept").rename(second.identity)
        told = await second.ask("PUT", "/identity", body=replace(ANNA, tenant="ben").encode())
    assert told.status == 409


async def test_token_and_address_can_be_renewed(rig: Rig) -> None:
    """A new token replaces the old one at one moment, and nothing of the old one stays."""
    await rig.ask("PUT", "/identity", body=ANNA.encode())
    renewed = replace(ANNA, token="bh1.uid.other", api_url="http://elsewhere")
    assert (await rig.ask("PUT", "/identity", body=renewed.encode())).status == 204
    assert read(rig.identity)["token"] == "bh1.uid.other"
    content = [file.read_bytes() for file in rig.identity.rglob("*") if file.is_file()]
    assert b"bh1.uid.seal" not in content


async def test_a_delivery_that_was_cut_off(rig: Rig) -> None:
    """What an agent left behind when it was killed in the middle does not stand in the way."""
    (rig.identity / "..1").mkdir()
    (rig.identity / "..1/tenant").write_text("an")
    (rig.identity / "tenant").symlink_to("..data/tenant")
    (rig.identity / "..data.new").symlink_to("..1")
    assert (await rig.ask("PUT", "/identity", body=ANNA.encode())).status == 204
    assert read(rig.identity)["tenant"] == "anna"
    assert not (rig.identity / "..1").exists()


async def test_all_files_appear_at_one_moment(rig: Rig) -> None:
    """A program that sees one of the files sees all of them, each time it looks."""
    seen: list[set[str]] = []
    done = asyncio.Event()

    def look() -> set[str]:
        return {name for name in FILES if (rig.identity / name).exists()}

    async def watch() -> None:
        while not done.is_set():
            found = await asyncio.to_thread(look)
            if found and await asyncio.to_thread(look) != FILES:
                seen.append(found)

    watching = asyncio.create_task(watch())
    for _ in range(20):
        await rig.ask("PUT", "/identity", body=ANNA.encode())
    done.set()
    await watching
    assert seen == []


async def test_bad_identities(rig: Rig) -> None:
    """What is not exactly five texts is refused, and nothing is written."""
    for body in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"tenant": "a"}',
        ANNA.encode()[:-1] + b', "x": "y"}',
    ):
        assert (await rig.ask("PUT", "/identity", body=body)).status == 400
    for field in ("tenant", "token"):
        wrong = ANNA.encode().replace(f'"{getattr(ANNA, field)}"'.encode(), b"5")
        assert (await rig.ask("PUT", "/identity", body=wrong)).status == 400
    assert (await rig.ask("PUT", "/identity", body=b"x" * 70_000)).status == 413
    assert list(rig.identity.iterdir()) == []
