"""Tenants that go and come back, over REST: `up` on one machine, operator and API beside a node.

claim ─► files ─► release, idleness, deletion, failure ─► DIR/snapshots ─► claim ─► the same files

One house for the whole file, since a Pod of a real node takes seconds: each story has workloads
and tenants of its own.
"""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from boilerhouse.node.helper import layout
from tests.e2e.snapshots_fixture import Home, soon

pytestmark = pytest.mark.timeout(300)


def members(archive: Path) -> list[str]:
    """Return what plain tar says is in an archive."""
    done = subprocess.run(["tar", "tzf", archive], capture_output=True, text=True, check=True)
    return sorted(done.stdout.splitlines())


def test_released_and_revived(home: Home) -> None:
    """Saved where tar can list it; back in a cold instance, then in a warm one; written once."""
    home.workload("files")
    first = home.claim("alice", "files", "cold")
    home.sh(first, "mkdir -p /workspace/d/e; echo one > /workspace/d/f; ln -s f /workspace/d/l")
    saved = home.released("alice", "files")
    assert saved is not None and saved["current"]
    assert saved["path"] == "/snapshots/alice/files.tar.gz"
    archive = home.archive("alice", "files")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == saved["digest"]
    # What the tenant writes when it is told to end is not in it: it is halted, then killed.
    assert members(archive) == [
        "workspace/", "workspace/d/", "workspace/d/e/", "workspace/d/f", "workspace/d/l"
    ]  # fmt: skip
    assert home.pod(first) is None
    assert home.ask("GET", "/tenants/alice").json()["claims"] == []

    second = home.claim("alice", "files", "cold+data")
    assert second != first
    assert home.sh(second, "cat /workspace/d/l; readlink /workspace/d/l") == "one\nf\n"
    status = home.status(home.held("alice")["name"])
    assert status["snapshot"] == {"base": saved["digest"], "restored": saved["digest"]}
    before = archive.stat()
    again = home.released("alice", "files")
    assert again is not None and again["digest"] == saved["digest"]
    after = archive.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert len(home.versions("alice", "files")) == 1

    home.pool("files")
    third = home.claim("alice", "files", "pool+data")
    assert home.sh(third, "cat /workspace/d/f; echo two > /workspace/d/f") == "one\n"
    changed = home.released("alice", "files")
    assert changed is not None and changed["version"] == 2
    assert [one["digest"] for one in home.versions("alice", "files")] == [
        changed["digest"], saved["digest"]
    ]  # fmt: skip
    soon("the pool is full again", lambda: _ready(home, "files"))
    fourth = home.claim("alice", "files", "pool+data")
    assert home.sh(fourth, "cat /workspace/d/f") == "two\n"
    # Another tenant's instance has nothing of it.
    soon("the pool is full again", lambda: _ready(home, "files"))
    other = home.claim("bob", "files", "pool")
    assert home.sh(other, "ls -A /workspace") == ""
    home.released("alice", "files")
    home.released("bob", "files")


def _ready(home: Home, pool: str) -> bool:
    return bool(home.ask("GET", f"/pools/{pool}").json()["status"].get("ready"))


def test_starting_clean(home: Home) -> None:
    """`resume: false` restores nothing and leaves what is stored; the next save follows it."""
    home.workload("clean")
    instance = home.claim("clara", "clean", "cold")
    home.sh(instance, "echo old > /workspace/f")
    old = home.released("clara", "clean")
    assert old is not None
    instance = home.claim("clara", "clean", "cold", resume=False)
    assert home.sh(instance, "ls -A /workspace") == ""
    [kept] = home.versions("clara", "clean")
    assert (kept["digest"], kept["current"]) == (old["digest"], True)
    home.sh(instance, "echo new > /workspace/g")
    new = home.released("clara", "clean")
    assert new is not None and new["current"]
    assert [one["base"] for one in home.versions("clara", "clean")[:1]] == [old["digest"]]
    assert members(home.archive("clara", "clean")) == ["workspace/", "workspace/g"]


def test_destroyed(home: Home) -> None:
    """What was newer than the snapshot is lost, and said to be; the snapshot stays."""
    home.workload("ruins")
    instance = home.claim("dora", "ruins", "cold")
    home.sh(instance, "echo kept > /workspace/f")
    saved = home.released("dora", "ruins")
    instance = home.claim("dora", "ruins", "cold+data")
    home.sh(instance, "echo lost > /workspace/f")
    assert home.ask("POST", f"/instances/{instance}/destroy").status_code == 200
    held = home.in_phase("dora", "Released")
    assert "lost" in held["detail"]
    [kept] = home.versions("dora", "ruins")
    assert saved is not None and kept["digest"] == saved["digest"]
    instance = home.claim("dora", "ruins", "cold+data")
    assert home.sh(instance, "cat /workspace/f") == "kept\n"
    home.released("dora", "ruins")


def test_idle(home: Home) -> None:
    """Hibernated at its deadline, explained before and after; the next claim brings it back."""
    home.workload("naps", idle={"timeoutSeconds": 3})
    instance = home.claim("ida", "naps", "cold")
    home.sh(instance, "echo here > /workspace/f")
    told = home.ask("GET", "/tenants/ida/workloads/naps/idle").json()
    assert (told["state"], told["timeoutSeconds"], told["action"]) == ("active", 3, "hibernate")
    assert told["secondsLeft"] <= 3
    held = home.in_phase("ida", "Released")
    assert "idle for" in held["detail"]
    assert home.pod(instance) is None
    assert "workspace/f" in members(home.archive("ida", "naps"))
    told = home.ask("GET", "/tenants/ida/workloads/naps/idle").json()
    assert (told["state"], told["then"]) == ("released", "the next claim brings the instance back")
    instance = home.claim("ida", "naps", "cold+data")
    assert home.sh(instance, "cat /workspace/f") == "here\n"
    home.released("ida", "naps")


def test_idle_and_destroyed(home: Home) -> None:
    """`action: destroy` saves nothing; the released claim goes after its time."""
    home.workload("drops", idle={"timeoutSeconds": 2, "action": "destroy", "releasedTTLSeconds": 2})
    instance = home.claim("dan", "drops", "cold")
    home.sh(instance, "echo gone > /workspace/f")
    held = home.in_phase("dan", "Released")
    assert "idle for" in held["detail"]
    assert "lost" in held["detail"]
    assert home.versions("dan", "drops") == []
    soon("the claim is removed", lambda: home.ask("GET", "/tenants/dan").status_code == 404)
    home.claim("dan", "drops", "cold")
    home.released("dan", "drops")


def test_busy_by_its_files(home: Home) -> None:
    """A tenant that nobody talks to, but who works in a watched directory, is not idle."""
    works = "while test ! -e /workspace/stop; do date > /workspace/out; sleep 0.5; done; sleep 1000"
    home.workload(
        "works",
        idle={"timeoutSeconds": 2, "watchDirs": ["/workspace"]},
        entrypoint={"cmd": "/bin/sh", "args": ["-c", works]},
    )
    instance = home.claim("wanda", "works", "cold")
    time.sleep(7)  # three times as long as idleness would take
    assert home.held("wanda")["phase"] == "Active"
    home.sh(instance, "touch /workspace/stop")
    assert "idle for" in home.in_phase("wanda", "Released")["detail"]
    assert "workspace/out" in members(home.archive("wanda", "works"))


def test_a_claim_that_comes_while_it_is_hibernated(home: Home) -> None:
    """Each answer is the instance as it is, or the revived one with its files; never empty."""
    home.workload("races", idle={"timeoutSeconds": 1})
    instance = home.claim("rita", "races", "cold")
    home.sh(instance, "echo 0 > /workspace/n")
    sources = set()
    for number in range(5):
        time.sleep(0.8 + number * 0.1)
        body = {"workload": "races"}
        answer = home.ask("POST", "/tenants/rita/claim", body, params={"wait": 90})
        assert answer.status_code in (200, 201), answer.text
        sources.add(answer.json()["source"])
        told = home.sh(
            answer.json()["instanceId"],
            "cat /workspace/n; echo $(($(cat /workspace/n) + 1)) > /workspace/n",
        )
        assert told == f"{number}\n"
    assert sources <= {"existing", "cold+data"}, sources


def test_saving_fails_and_is_tried_again(home: Home) -> None:
    """ReleaseFailed keeps the instance; a claim gives it back as it was; a retry saves it."""
    home.workload("stuck")
    instance = home.claim("sam", "stuck", "cold")
    home.sh(instance, "echo precious > /workspace/f")
    claim = home.held("sam")["name"]
    in_the_way = home.volume / ".v" / "sam"
    in_the_way.touch()
    answer = home.release("sam", "stuck")
    assert (answer.status_code, answer.json()["code"]) == (409, "ReleaseFailed"), answer.text
    assert "the volume of the snapshots does not work" in answer.json()["error"]
    status = home.status(claim)
    assert status["phase"] == "ReleaseFailed"
    assert status["release"]["attempts"] == 3
    assert status["release"]["nextTryAt"] > status["release"]["failedAt"]
    assert home.release("sam", "stuck", "/retry").status_code == 409
    assert home.status(claim)["release"]["attempts"] == 6

    assert home.claim("sam", "stuck", "existing") == instance
    assert home.sh(instance, "cat /workspace/f; echo more >> /workspace/f") == "precious\n"
    assert home.held("sam")["phase"] == "Active"
    assert home.release("sam", "stuck").status_code == 409
    in_the_way.unlink()
    saved = home.released("sam", "stuck", "/retry")
    assert saved is not None and saved["current"]
    assert home.pod(instance) is None
    instance = home.claim("sam", "stuck", "cold+data")
    assert home.sh(instance, "cat /workspace/f") == "precious\nmore\n"
    home.released("sam", "stuck")


def test_given_up_by_force(home: Home) -> None:
    """Force says what will be lost, loses exactly that, and leaves the last snapshot."""
    home.workload("lost")
    instance = home.claim("fred", "lost", "cold")
    assert home.release("fred", "lost", "/force").status_code == 409
    home.sh(instance, "echo old > /workspace/f")
    old = home.released("fred", "lost")
    instance = home.claim("fred", "lost", "cold+data")
    home.sh(instance, "echo new > /workspace/f")
    with home.helpless():
        assert home.release("fred", "lost").status_code == 409
        told = home.ask(
            "POST", "/tenants/fred/release/force", {"workload": "lost"}, params={"dryRun": "true"}
        )
        assert (told.status_code, told.json()["status"]) == (200, "kept"), told.text
        assert old is not None and old["digest"] in told.json()["lost"]["detail"]
        assert home.pod(instance) is not None
        # Nobody can tell whether the instance runs on: it is not given back meanwhile.
        waiting = home.ask("POST", "/tenants/fred/claim", {"workload": "lost"}, params={"wait": 1})
        assert (waiting.status_code, waiting.json()["phase"]) == (202, "ReleaseFailed")
        assert home.release("fred", "lost").status_code == 409
        forced = home.release("fred", "lost", "/force")
        assert (forced.status_code, forced.json()["phase"]) == (200, "Released"), forced.text
        assert home.pod(instance) is None
    instance = home.claim("fred", "lost", "cold+data")
    assert home.sh(instance, "cat /workspace/f") == "old\n"
    home.released("fred", "lost")


def test_no_helper(home: Home) -> None:
    """Lists are 503, never empty; who has files waits for them and never gets an empty instance."""
    home.workload("waits")
    instance = home.claim("walt", "waits", "cold")
    home.sh(instance, "echo here > /workspace/f")
    home.released("walt", "waits")
    with home.helpless():
        for path in ("/snapshots", "/tenants/walt/snapshots", "/workloads/waits/snapshots"):
            answer = home.ask("GET", path)
            assert (answer.status_code, answer.json()["code"]) == (503, "HelperUnavailable"), path
        body = {"workload": "waits"}
        answer = home.ask("POST", "/tenants/walt/claim", body, params={"wait": 2})
        assert (answer.status_code, answer.json()["phase"]) == (202, "Pending"), answer.text
    answer = home.ask("POST", "/tenants/walt/claim", body, params={"wait": 90})
    assert answer.status_code in (200, 201), answer.text
    assert home.sh(answer.json()["instanceId"], "cat /workspace/f") == "here\n"
    home.released("walt", "waits")


PLANTED = """
cd /workspace; mkdir a b; head -c 50000000 /dev/urandom > .all; i=0
while test $i -lt 4000; do dd bs=12500 count=1 of=a/f$i 2>/dev/null <&3; i=$((i+1)); done 3< .all
rm .all; mv a/f*[0-4] b/; chmod 600 a/*6; chmod 755 b/*1; touch -d '2001-02-03 04:05:06' b/*2
ln a/f5 a/hard; ln -s ../a b/link
"""
LISTED = "cd /workspace; find . -type f | sort | xargs sha256sum | sha256sum"
# A directory's size is the file system's own affair.
STATED = """
cd /workspace; find . ! -type d | sort | xargs stat -c '%n %a %u %Y %s %h' | sha256sum
find . -type d | sort | xargs stat -c '%n %a %u %Y'
"""


def test_fifty_megabytes_in_four_thousand_files(home: Home) -> None:
    """Every file is back bit for bit, with its mode, time and links, in cold and in warm ones.

    The helper is deleted in the middle of the upload: the release goes on with the next one.
    """
    home.workload("large", resources={"vcpus": 1, "memoryMb": 256, "diskGb": 2})
    instance = home.claim("lara", "large", "cold")
    home.sh(instance, PLANTED)
    assert home.sh(instance, "find /workspace -type f | wc -l").strip() == "4001"
    wanted = [home.sh(instance, script) for script in (LISTED, STATED)]
    unfinished = home.volume / ".tmp"
    with ThreadPoolExecutor(1) as pool:
        releasing = pool.submit(home.release, "lara", "large")
        soon("the upload is under way", lambda: any(unfinished.iterdir()) or releasing.done())
        cut_off = not releasing.done()
        home.delete_pod(layout.POD, grace=0)
        answer = releasing.result()
    assert cut_off, "the release was too fast to be disturbed"
    home.until_helped()
    if answer.status_code == 409:  # it took the next helper longer to start than three tries
        assert answer.json()["code"] == "ReleaseFailed", answer.text
        answer = home.release("lara", "large", "/retry")
    saved = answer.json()["snapshot"]
    assert saved["current"], answer.text
    assert list(unfinished.iterdir()) == []
    assert len(members(home.archive("lara", "large"))) == 4001 + 4

    instance = home.claim("lara", "large", "cold+data")
    assert [home.sh(instance, script) for script in (LISTED, STATED)] == wanted
    again = home.released("lara", "large")
    assert again is not None and again["digest"] == saved["digest"]
    home.pool("large")
    instance = home.claim("lara", "large", "pool+data")
    assert [home.sh(instance, script) for script in (LISTED, STATED)] == wanted
    home.released("lara", "large")
    home.ask("DELETE", "/pools/large")


def test_dead_before_its_release(home: Home) -> None:
    """A tenant whose process ends at once each time is saved all the same, and nobody waits."""
    dies = "test -e /workspace/dies && exit 1; exec sleep 1000"
    hook = {"preHibernate": {"command": ["false"], "onFailure": "fail"}}
    home.workload("dies", entrypoint={"cmd": "/bin/sh", "args": ["-c", dies]}, hooks=hook)
    instance = home.claim("dee", "dies", "cold")
    home.sh(instance, "echo here > /workspace/f; touch /workspace/dies")
    home.run(instance, "sh", "-c", "kill -9 1; kill -9 -1")

    def is_dead() -> bool:
        pod = home.pod(instance)
        assert pod is not None
        tenant = pod.status.container_statuses[0]
        return tenant.restart_count > 0 and tenant.state.running is None

    if not is_dead():
        # A process cannot kill the first one of its namespace: it ends when the file is there.
        soon("it is dead", is_dead)
    saved = home.released("dee", "dies")
    assert saved is not None and saved["current"]
    assert "workspace/f" in members(home.archive("dee", "dies"))


def test_its_pod_deleted_by_somebody_else(home: Home) -> None:
    """Saved within its grace, with what it wrote when it was told to end."""
    home.workload("gone")
    instance = home.claim("gina", "gone", "cold")
    home.sh(instance, "echo here > /workspace/f")
    home.delete_pod(instance)
    held = home.in_phase("gina", "Released")
    assert instance in held["detail"]
    assert "lost" not in held["detail"]
    assert members(home.archive("gina", "gone")) == [
        "workspace/", "workspace/f", "workspace/last-words"
    ]  # fmt: skip
    soon("the Pod is gone", lambda: home.pod(instance) is None)
    instance = home.claim("gina", "gone", "cold+data")
    assert home.sh(instance, "cat /workspace/f /workspace/last-words") == "here\nbye\n"
    home.released("gina", "gone")


def test_hooks(home: Home) -> None:
    """Run before the save and after the restore; one that must not fail keeps the instance."""
    home.workload(
        "hooked",
        hooks={
            "preHibernate": {
                "command": ["sh", "-c", "test ! -e /workspace/no && date > /workspace/flushed"],
                "onFailure": "fail",
            },
            "postRestore": {"command": ["cp", "/workspace/flushed", "/workspace/seen"]},
        },
    )
    instance = home.claim("hal", "hooked", "cold")
    assert home.sh(instance, "ls -A /workspace") == ""
    home.released("hal", "hooked")
    assert members(home.archive("hal", "hooked")) == ["workspace/", "workspace/flushed"]
    instance = home.claim("hal", "hooked", "cold+data")
    home.sh(instance, "cmp /workspace/flushed /workspace/seen; touch /workspace/no")
    answer = home.release("hal", "hooked")
    assert (answer.status_code, answer.json()["code"]) == (409, "ReleaseFailed"), answer.text
    assert "sh ended with code 1" in answer.json()["error"]
    home.sh(instance, "rm /workspace/no")
    saved = home.released("hal", "hooked", "/retry")
    assert saved is not None and saved["current"]


def test_stored_files_by_hand(home: Home, tmp_path: Path) -> None:
    """ls, get, put, restore, rm: an archive made with plain tar becomes a tenant's files."""
    home.workload("byhand")
    source = tmp_path / "workspace"
    source.mkdir()
    (source / "hello").write_text("from outside\n")
    mine, got = tmp_path / "mine.tar.gz", tmp_path / "got.tar.gz"
    subprocess.run(["tar", "czf", mine, "-C", tmp_path, "workspace"], check=True)
    done = home.cli("snapshot", "put", "hanna", "byhand", str(mine))
    assert done.returncode == 0, done.stderr
    instance = home.claim("hanna", "byhand", "cold+data")
    assert home.sh(instance, "cat /workspace/hello; echo inside > /workspace/new") == (
        "from outside\n"
    )
    refused = home.cli("snapshot", "put", "hanna", "byhand", str(mine))
    assert (refused.returncode, "release it first" in refused.stderr) == (1, True), refused.stderr
    home.released("hanna", "byhand")
    listed = home.cli("snapshot", "ls", "hanna", "byhand", "-o", "json")
    assert listed.returncode == 0, listed.stderr
    assert [one["kind"] for one in home.versions("hanna", "byhand")] == ["save", "import"]
    fetched = home.cli("snapshot", "get", "hanna", "byhand", "-f", str(got))
    assert fetched.returncode == 0, fetched.stderr
    assert got.read_bytes() == home.archive("hanna", "byhand").read_bytes()
    with tarfile.open(got) as archive:
        assert sorted(archive.getnames()) == ["workspace", "workspace/hello", "workspace/new"]

    back = home.cli("snapshot", "restore", "hanna", "byhand", "1")
    assert back.returncode == 0, back.stderr
    instance = home.claim("hanna", "byhand", "cold+data")
    assert home.sh(instance, "ls -A /workspace") == "hello\n"
    home.released("hanna", "byhand")
    removed = home.cli("snapshot", "rm", "hanna", "byhand", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert home.versions("hanna", "byhand") == []
    assert not home.archive("hanna", "byhand").exists()
    assert home.ask("GET", "/tenants/hanna").status_code == 404
    home.claim("hanna", "byhand", "cold")
    home.released("hanna", "byhand")


def test_a_claim_while_an_archive_comes(home: Home, tmp_path: Path) -> None:
    """The upload is refused at its end, and what the instance saves becomes current."""
    home.workload("meanwhile")
    source = tmp_path / "workspace"
    source.mkdir()
    (source / "hello").write_text("from outside\n")
    mine = tmp_path / "mine.tar.gz"
    subprocess.run(["tar", "czf", mine, "-C", tmp_path, "workspace"], check=True)
    content = mine.read_bytes()

    def pieces() -> Iterator[bytes]:
        yield content[:20]
        if home.kind == "embedded":  # elsewhere the helper gets it whole, once it is all there
            soon("the archive comes", lambda: any((home.volume / ".tmp").iterdir()), 30)
        instance = home.claim("mila", "meanwhile", "cold")
        home.sh(instance, "echo inside > /workspace/new")
        yield content[20:]

    path = "/tenants/mila/workloads/meanwhile/snapshots"
    refused = home.http.put(f"/api/v1{path}", content=pieces(), timeout=120)
    assert (refused.status_code, refused.json()["code"]) == (409, "SnapshotInUse"), refused.text
    saved = home.released("mila", "meanwhile")
    assert saved is not None and saved["current"]
    assert members(home.archive("mila", "meanwhile")) == ["workspace/", "workspace/new"]
