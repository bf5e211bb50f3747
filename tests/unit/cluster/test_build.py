"""Building: what is there is left alone, what is missing is built once, whole or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from cluster import build
from cluster.build import Binary
from cluster.places import ClusterError, Places

pytestmark = pytest.mark.processes

TOOL = Binary("tool", "example.com/tools", "1.2.3", "example.com/tools/tool")
# Stands in for the toolchain: writes down what it was asked and "builds" a script.
GO = """#!/bin/sh
echo "$@" >> {log}
case "$1 $2" in
  "mod download")
    printf 'module x\\nreplace (\\n\\tk8s.io/api => ./staging/src/k8s.io/api\\n)\\n' > {gomod}
    echo '{{"GoMod": "{gomod}"}}' ;;
esac
if [ "$1" = build ]; then
  while [ "$1" != -o ]; do shift; done
  printf '#!/bin/sh\\necho Tool v{says}\\n' > "$2"; chmod +x "$2"
fi
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "cache")


def toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str = "1.2.3") -> Path:
    log, directory = tmp_path / "log", tmp_path / "path"
    directory.mkdir(exist_ok=True)
    (directory / "go").write_text(GO.format(log=log, gomod=tmp_path / "go.mod", says=says))
    (directory / "go").chmod(0o755)
    log.touch()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return log


def test_built_once(tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first build makes module and binary, the second finds both and asks for nothing."""
    log = toolchain(tmp_path, monkeypatch)
    lines: list[str] = []
    build.build(places, [TOOL], lines.append)
    asked = log.read_text().splitlines()
    assert [line.split()[0] for line in asked] == ["mod", "mod", "get", "mod", "build"]
    assert "-replace=k8s.io/api=k8s.io/api@v0.34.4" in asked[1]
    assert lines[0].startswith("[1/1] building tool 1.2.3")
    assert build.missing(places, [TOOL]) == []
    build.build(places, [TOOL], lines.append)
    assert log.read_text().splitlines() == asked


def test_a_binary_made_elsewhere_is_taken_at_its_word(places: Places) -> None:
    """What says the right version itself need not be built; what says another one must be."""
    places.bin.mkdir(parents=True)
    path = places.bin / "tool"
    path.write_text("#!/bin/sh\necho Tool v1.2.3\n")
    path.chmod(0o755)
    assert build.missing(places, [TOOL]) == []
    path.write_text("#!/bin/sh\necho Tool v1.2.30\n")
    assert build.missing(places, [TOOL]) == [TOOL]


def test_a_binary_of_the_wrong_version_is_not_installed(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that says another version than it should leaves nothing in place."""
    toolchain(tmp_path, monkeypatch, says="9.9.9")
    with pytest.raises(ClusterError, match=r"does not say version 1\.2\.3"):
        build.build(places, [TOOL], lambda line: None)
    assert not (places.bin / "tool").exists()


def test_without_go(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a toolchain the error names what is missing and what would help."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ClusterError, match="tool must be built, and the Go toolchain"):
        build.build(places, [TOOL], lambda line: None)


def test_two_builds_at_once(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits for the first and then finds its work done."""
    log = toolchain(tmp_path, monkeypatch)
    threads = [
        threading.Thread(target=build.build, args=(places, [TOOL], lambda line: None))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    builds = [line for line in log.read_text().splitlines() if line.startswith("build")]
    assert len(builds) == 1
