"""What Pods of the embedded kubelet need and say: room, volumes, sessions, restarts of ours."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from boilerhouse.core import names
from boilerhouse.embedded.kubelet.forkserver.slots import PREFORKED, SIZE
from boilerhouse.embedded.kubelet.pod.pod import PodWorker
from boilerhouse.platform.kube.exec import Channel
from boilerhouse.platform.kube.kinds import Node, Pod
from boilerhouse.platform.kube.resources import CONFIG_MAPS, LEASES, NODES, PODS, PVCS, SECRETS
from boilerhouse.platform.kube.status import BadRequest, NotFound
from boilerhouse.platform.kube.wire import STRATEGIC_PATCH, Request
from tests.e2e.embedded_fixture import Scene, opened
from tests.e2e.tenants import Body, eventually, pod, sh

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


async def test_what_does_not_fit_waits_for_room(scene: Scene) -> None:
    """The scheduler's words say what lacks; room that appears is used; a cordon is honoured."""
    big: Body = {"resources": {"requests": {"cpu": "3"}}}
    await scene.create(pod("big", sh("exec sleep 1000", **big)))
    await scene.ready("big")
    await scene.create(pod("bigger", sh("exec sleep 1000", **big)))
    waiting = await scene.until("bigger", lambda one: bool(one.status.conditions))
    scheduled = waiting.status.condition("PodScheduled")
    assert scheduled is not None
    assert (scheduled.status, scheduled.reason) == ("False", "Unschedulable")
    assert scheduled.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    await scene.client.delete(PODS, "big", grace=0)
    await scene.ready("bigger")

    await scene.client.merge_patch(NODES, "boilerhouse", {"spec": {"unschedulable": True}})
    kubelet = scene.world.kubelet
    assert kubelet is not None

    async def cordoned() -> bool:
        return kubelet.cordoned

    await eventually(cordoned)
    await scene.create(pod("outside", sh("exec sleep 1000")))
    waiting = await scene.until("outside", lambda one: bool(one.status.conditions))
    scheduled = waiting.status.condition("PodScheduled")
    assert scheduled is not None
    assert "were unschedulable" in scheduled.message
    await scene.client.merge_patch(NODES, "boilerhouse", {"spec": {"unschedulable": None}})
    await scene.ready("outside")


async def test_a_pod_sent_here_past_the_scheduler(scene: Scene) -> None:
    """With a node of its own choice and no room there, it is rejected as Failed."""
    big: Body = {"resources": {"requests": {"memory": "1Ti"}}}
    await scene.create(pod("sent", sh("exec sleep 1000", **big), nodeName="boilerhouse"))
    found = await scene.until("sent", lambda one: one.status.phase == "Failed")
    assert found.status.reason == "OutOfmemory"
    await scene.client.delete(PODS, "sent")
    await scene.gone("sent")


async def test_who_fills_the_disk_is_evicted(scene: Scene) -> None:
    """A volume over its limit ends the Pod as Failed, Evicted, with the volume's name."""
    await scene.create(
        pod(
            "greedy",
            sh(
                "head -c 3000000 /dev/zero > /data/file; exec sleep 1000",
                volumeMounts=[{"name": "data", "mountPath": "/data"}],
            ),
            volumes=[{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}],
        )
    )
    found = await scene.until("greedy", lambda one: one.status.phase == "Failed")
    assert found.status.reason == "Evicted"
    assert 'volume "data" exceeds the limit "1Mi"' in found.status.message
    with pytest.raises(NotFound):
        await scene.client.pods.run("greedy", ["true"])


async def test_an_instance_is_not_evicted_for_its_disk(scene: Scene) -> None:
    """Beside a sidecar of ours limits of an earlier release mean nothing; others' still do."""
    greedy = "head -c 3000000 /dev/zero > /data/file; exec sleep 1000"
    mounts = [{"name": "data", "mountPath": "/data"}]
    limits: Body = {"limits": {"ephemeral-storage": "1Mi"}}
    volumes = [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]
    agent = {"name": "tick", "image": "boilerhouse", "command": ["tick"], "restartPolicy": "Always"}
    box = sh(greedy, volumeMounts=mounts, resources=limits)
    await scene.create(pod("instance", box, initContainers=[agent], volumes=volumes))
    await scene.ready("instance")
    await scene.create(pod("foreign", box, volumes=volumes))
    found = await scene.until("foreign", lambda one: one.status.phase == "Failed")
    assert found.status.reason == "Evicted"
    assert await scene.sh("instance", "wc -c < /data/file") == "3000000"


async def test_what_cannot_be_shared_is_refused(scene: Scene) -> None:
    """Containers that want one process namespace, a network that is not built: said, not faked."""
    await scene.create(pod("close", sh("true"), sh("true", "other"), shareProcessNamespace=True))
    found = await scene.until("close", lambda one: bool(waiting_message(one)))
    assert "process namespace" in waiting_message(found)
    await scene.create(pod("far", sh("true"), labels={names.NETWORK: "restricted"}))
    found = await scene.until("far", lambda one: bool(waiting_message(one)))
    assert "'restricted' is not supported" in waiting_message(found)


async def test_the_death_of_the_fork_server_is_told(scene: Scene) -> None:
    """Every container ends with it; who runs the kubelet hears of it and can still close."""
    kubelet = scene.world.kubelet
    assert kubelet is not None
    await scene.create(pod("victim", sh("exec sleep 1000")))
    await scene.ready("victim")
    os.kill(kubelet.sandboxes.fork_server.pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        await asyncio.shield(kubelet.died)
    await scene.until("victim", lambda one: not one.ready)


async def test_volumes_and_variables_reach_the_container(scene: Scene) -> None:
    """Secrets, ConfigMaps, claims, memory, fields of the Pod, and $(NAME) in the command."""
    client = scene.client
    await client.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    await client.create(
        CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a.txt": "plain", "b": "B"}}
    )
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await client.create(PVCS, {"metadata": {"name": "boilerhouse-snapshots"}, "spec": claim})
    mounts = [
        {"name": "secret", "mountPath": "/secret"},
        {"name": "config", "mountPath": "/config", "readOnly": True},
        {"name": "claim", "mountPath": "/claim"},
        {"name": "memory", "mountPath": "/memory"},
    ]
    env = [
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "b"}}},
        {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "BOTH", "value": "$(KEY)-$(B)-$(NONE)-$$(B)"},
    ]
    container = sh("x", volumeMounts=mounts, env=env)
    container["command"] = ["/bin/sh", "-c", 'echo "$0"; exec sleep 1000', "$(BOTH)"]
    await scene.create(
        pod(
            "full",
            container,
            volumes=[
                {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o400}},
                {
                    "name": "config",
                    "configMap": {"name": "c", "items": [{"key": "a.txt", "path": "d/a"}]},
                },
                {"name": "claim", "persistentVolumeClaim": {"claimName": "boilerhouse-snapshots"}},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
            ],
        )
    )
    found = await scene.ready("full")
    await scene.said("full", b"hidden-B-$(NONE)-$(B)\n")
    assert await scene.sh("full", "echo $WHO $IP") == f"full {found.status.pod_ip}"
    assert await scene.sh("full", "cat /secret/key; stat -c %a /secret/key") == "hidden400"
    assert await scene.sh("full", "cat /config/d/a; ls /config") == "plaind"
    assert await scene.sh("full", "stat -f -c %T /memory; touch /memory/x") == "tmpfs"
    denied = await client.pods.run("full", ["/bin/sh", "-c", "touch /config/x /secret/x"])
    assert denied.exit_code != 0
    await scene.sh("full", "echo kept > /claim/file")
    assert (scene.world.directory / "snapshots" / "file").read_text() == "kept\n"
    assert (await client.get(PVCS, "boilerhouse-snapshots")).status.phase == "Bound"
    await client.delete(PODS, "full", grace=0)
    await scene.gone("full")
    assert (scene.world.directory / "snapshots" / "file").exists()


async def test_what_is_missing_is_said_and_awaited(scene: Scene) -> None:
    """A Secret, an image: the container waits with the reason, and starts when it is there."""
    await scene.create(
        pod(
            "early",
            sh("exec sleep 1000", volumeMounts=[{"name": "s", "mountPath": "/s"}]),
            volumes=[{"name": "s", "secret": {"secretName": "later"}}],
        )
    )
    found = await scene.until("early", lambda one: bool(waiting_message(one)))
    assert 'secret "later" not found' in waiting_message(found)
    await scene.client.create(SECRETS, {"metadata": {"name": "later"}, "stringData": {"a": "b"}})
    await scene.ready("early")

    await scene.create(pod("strange", {"name": "main", "image": "example.com/none:1"}))
    found = await scene.until("strange", lambda one: "ImagePullBackOff" in reasons(one))
    assert "example.com/none:1" in waiting_message(found)
    never = {"name": "main", "image": "none", "imagePullPolicy": "Never"}
    await scene.create(pod("never", never))
    await scene.until("never", lambda one: "ErrImageNeverPull" in reasons(one))
    with pytest.raises(BadRequest, match="is waiting to start"):
        await scene.client.pods.log("never")
    added: Body = {"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}
    await scene.create(pod("strong", sh("true", **added)))
    found = await scene.until("strong", lambda one: bool(waiting_message(one)))
    assert "NET_ADMIN" in waiting_message(found)


def reasons(found: Pod) -> set[str]:
    return {
        one.state.waiting.reason
        for one in found.status.container_statuses
        if one.state.waiting is not None
    }


def waiting_message(found: Pod) -> str:
    return " ".join(
        one.state.waiting.message
        for one in found.status.container_statuses
        if one.state.waiting is not None
    )


async def test_a_stop_is_graceful_then_not(scene: Scene) -> None:
    """SIGTERM first; who ignores it is killed when the grace is over; a forced delete kills now."""
    stubborn = sh("trap '' TERM; echo deaf; while :; do sleep 0.1; done")
    await scene.create(pod("deaf", stubborn, terminationGracePeriodSeconds=1))
    await scene.ready("deaf")
    await scene.said("deaf", b"deaf")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await scene.client.delete(PODS, "deaf")
    await scene.gone("deaf")
    assert loop.time() - began >= 1.0
    await scene.create(pod("deafer", stubborn, terminationGracePeriodSeconds=600))
    uid = (await scene.ready("deafer")).metadata.uid
    await scene.said("deafer", b"deaf")
    await scene.client.delete(PODS, "deafer")
    found = await scene.client.get(PODS, "deafer")
    assert found.metadata.deletion_timestamp is not None
    await scene.client.delete(PODS, "deafer", grace=0)
    await scene.gone("deafer")
    await scene.swept(uid)


async def test_a_terminal_in_a_container(scene: Scene) -> None:
    """exec with a TTY has the size it is told, takes input, and ends with its exit code."""
    await scene.create(pod("shell", sh("exec sleep 1000")))
    await scene.ready("shell")
    async with scene.client.pods.exec("shell", ["/bin/sh"], stdin=True, tty=True) as session:
        await session.resize(123, 45)
        await session.write(b"stty size; test -t 0 && echo yes $TERM; exit 5\n")
        heard = b""
        while (output := await session.read()) is not None:
            assert output.channel == Channel.STDOUT
            heard += output.data
    assert session.exit_code == 5
    assert b"45 123" in heard
    assert b"yes xterm" in heard


async def test_attach_hears_and_speaks(scene: Scene) -> None:
    """attach reaches the container's own process: its output from now on, and its input."""
    script = "while read line; do echo got $line; done; echo over; exec sleep 1000"
    await scene.create(pod("talker", sh(script, stdin=True, stdinOnce=True)))
    await scene.ready("talker")
    path = PODS.path("boilerhouse", "talker", "attach")
    query = (("stdin", "true"), ("stdout", "true"), ("stderr", "true"))
    async with scene.client.transport.socket(
        Request("GET", path, query), ("v5.channel.k8s.io",)
    ) as talk:
        await talk.send(bytes([Channel.STDIN]) + b"hello\n")
        assert await talk.receive() == bytes([Channel.STDOUT]) + b"got hello\n"
    await scene.said("talker", b"over")


async def test_a_built_in_container(scene: Scene) -> None:
    """The product's image is a task of ours: with a port, probes, logs, and the last to end."""
    sidecar = {
        "name": "agent",
        "image": "boilerhouse",
        "args": ["tick", "$(WORD)"],
        "env": [{"name": "WORD", "value": "tock"}],
        "restartPolicy": "Always",
        "ports": [{"containerPort": 7711}],
        "startupProbe": {"httpGet": {"path": "/", "port": 7711}, "periodSeconds": 1},
        "volumeMounts": [{"name": "data", "mountPath": "/overlay/data"}],
    }
    await scene.create(
        pod(
            "guarded",
            sh("exec sleep 1000", volumeMounts=[{"name": "data", "mountPath": "/data"}]),
            initContainers=[sidecar],
            volumes=[{"name": "data", "emptyDir": {}}],
        )
    )
    found = await scene.ready("guarded")
    assert await scene.client.pods.log("guarded", container="agent") == b"args ('tock',)\n"
    answer = await scene.client.pods.proxy("guarded", 7711)
    assert answer.body == b"main"
    with pytest.raises(BadRequest, match="built in"):
        await scene.client.pods.run("guarded", ["true"], container="agent")
    probe = "exec 3<>/dev/tcp/$0/7711"
    inside = await scene.client.pods.run(
        "guarded", ["/bin/bash", "-c", probe, found.status.pod_ip], container="main"
    )
    assert inside.exit_code != 0
    volume = scene.world.directory / "pods" / found.metadata.uid / "volumes" / "data"
    await scene.sh("guarded", "touch /data/stopped-last; chmod 666 /data/stopped-last", "main")
    with (volume / "stopped-last").open() as file:
        await scene.client.delete(PODS, "guarded")
        await scene.gone("guarded")
        assert file.read() == "yes"


async def test_the_node_tells_what_it_is(scene: Scene) -> None:
    """Ready, with capacity, whether limits are enforced, and a Lease that is renewed."""
    node: Node = await scene.client.get(NODES, "boilerhouse")
    conditions = {one.type: one.status for one in node.status.conditions}
    assert conditions["Ready"] == "True"
    assert conditions["LimitsEnforced"] in ("True", "False")
    assert node.status.allocatable == {
        "cpu": "4",
        "memory": "4Gi",
        "ephemeral-storage": "100Gi",
        "pods": "50",
    }
    lease = await scene.client.get(LEASES, "boilerhouse", namespace="kube-node-lease")
    assert lease.spec.holder_identity == "boilerhouse"


async def test_an_image_is_changed(scene: Scene) -> None:
    """The container goes on with the new one, as soon as it may be had."""
    await scene.create(pod("typo", sh("exec sleep 1000") | {"image": "hots"}))
    await scene.until("typo", lambda one: "ImagePullBackOff" in reasons(one))
    patch = {"spec": {"containers": [{"name": "main", "image": "host"}]}}
    await scene.client.raw(
        "PATCH", PODS.path("boilerhouse", "typo"), patch, content_type=STRATEGIC_PATCH
    )
    await scene.ready("typo")


async def test_many_at_once(scene: Scene) -> None:
    """All of them get ready and all of them go, again and again; nothing stays open."""

    async def one(name: str) -> None:
        await scene.create(pod(name, sh("exec sleep 1000")))
        await scene.ready(name)
        await scene.client.delete(PODS, name, grace=0)
        await scene.gone(name)

    open_files = -1
    for number in range(3):
        await asyncio.gather(*(one(f"p{number}-{count}") for count in range(40)))

        async def swept() -> bool:
            pods = scene.world.directory / "pods"
            return not await asyncio.to_thread(lambda: list(pods.iterdir()))

        await eventually(swept)
        now = await asyncio.to_thread(lambda: len(os.listdir("/proc/self/fd")))  # noqa: PTH208
        if number == 0:
            open_files = now
    in_stock = SIZE * (1 + PREFORKED)  # networks, and who waits in cgroups: there or not yet
    assert now <= open_files + in_stock + 5


async def test_stopped_and_started_again(scene: Scene, tmp_path: Path) -> None:
    """Processes end with us; Pods run again with their files, or stay done; the rest is swept."""
    data: Body = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volumes = [{"name": "data", "emptyDir": {}}]
    await scene.create(pod("stays", sh("exec sleep 1000", **data), volumes=volumes))
    first = await scene.ready("stays")
    await scene.sh("stays", "echo precious > /data/file")
    await scene.create(pod("job", sh("echo said"), restartPolicy="Never"))
    await scene.until("job", lambda one: one.status.phase == "Succeeded")
    stray = scene.world.directory / "pods" / "11111111-1111-1111-1111-111111111111"
    (stray / "volumes").mkdir(parents=True)
    await scene.world.close()
    again = await opened(tmp_path / "data")
    try:
        found = await again.until(
            "stays", lambda one: one.ready and one.status.container_statuses[0].restart_count == 1
        )
        assert found.metadata.uid == first.metadata.uid
        assert found.status.pod_ip == first.status.pod_ip
        last = found.status.container_statuses[0].last_state.terminated
        assert last is not None
        assert last.message == "Boilerhouse was restarted"
        assert await again.sh("stays", "cat /data/file") == "precious"
        assert not stray.exists()
        job = await again.client.get(PODS, "job")
        assert job.status.phase == "Succeeded"
        assert job.status.container_statuses[0].state.terminated is not None
        assert await again.client.pods.log("job") == b"said\n"
        await again.client.delete(PODS, "job")
        await again.gone("job")
        await again.swept(job.metadata.uid)
    finally:
        await again.world.close()


async def test_a_pod_whose_worker_failed_is_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug that ends a Pod's worker is told with health, until the Pod is gone."""
    kubelet = scene.world.kubelet
    assert kubelet is not None

    async def broken(worker: PodWorker) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(PodWorker, "run", broken)
    await scene.create(pod("lonely", sh("exec sleep 1000")))

    async def told() -> bool:
        return any("lonely is not looked after any more" in one for one in kubelet.warnings())

    await eventually(told)
    monkeypatch.undo()
    await scene.client.delete(PODS, "lonely", grace=0)
    await scene.gone("lonely")

    async def over() -> bool:
        return not kubelet.warnings()

    await eventually(over)
