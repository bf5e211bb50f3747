"""Pods on the embedded kubelet: real sandboxes, driven through the API like any cluster's."""

from __future__ import annotations

import socket

import pytest

from boilerhouse.core import names
from boilerhouse.core.clock import SystemClock
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import EVENTS, PODS
from boilerhouse.platform.kube.status import BadRequest, NotFound, Unavailable
from tests.e2e.embedded_fixture import Scene, fetch
from tests.e2e.tenants import Body, eventually, pod, server, sh

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


async def test_a_pod_lives_is_used_and_goes(scene: Scene) -> None:
    """Created, Ready with an address, run in, read from, reached by proxy and address, deleted."""
    await scene.create(pod("web", server("hello"), volumes=[]))
    found = await scene.ready("web")
    assert found.spec.node_name == "boilerhouse"
    assert found.status.phase == "Running"
    (container,) = found.status.container_statuses
    assert (container.ready, container.started, container.restart_count) == (True, True, 0)
    assert container.container_id.startswith("boilerhouse://")

    done = await scene.client.pods.run(
        "web", ["/bin/sh", "-c", "cat; echo told >&2; exit 3"], stdin=b"given"
    )
    assert (done.stdout, done.stderr, done.exit_code) == (b"given", b"told\n", 3)
    missing = await scene.client.pods.run("web", ["no-such-program"])
    assert missing.exit_code == 127
    assert b"not found" in missing.stderr

    answer = await scene.client.pods.proxy("web", 8080, "/a", query=[("b", "c d")])
    assert (answer.status, answer.body) == (200, b"hello")
    assert (await fetch(found, 8080)).endswith(b"hello")
    with pytest.raises(Unavailable):
        await refused(scene, "web", 9999)

    assert scene.directory(found.metadata.uid).is_dir()
    await scene.client.delete(PODS, "web")
    await scene.gone("web")
    await scene.swept(found.metadata.uid)


async def test_what_a_command_leaves_in_the_background_stays(scene: Scene) -> None:
    """It runs on after the command, also with its pipes in hand, which keep nobody waiting."""
    await scene.create(pod("desk", sh("exec sleep 1000")))
    await scene.ready("desk")

    async def runs(seconds: int) -> bool:
        return f"sleep {seconds}" in await scene.sh(
            "desk", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
        )

    quiet = "nohup sleep 2001 >/dev/null 2>&1 </dev/null &"
    assert await scene.sh("desk", f"{quiet} echo left") == "left"
    assert await scene.sh("desk", "sleep 2002 & echo told") == "told"
    assert await runs(2001)
    assert await runs(2002)

    async with scene.client.pods.exec("desk", ["/bin/sh", "-c", "sleep 2003 & echo; wait"]) as cut:
        assert await cut.read() is not None

    async def gone() -> bool:
        return not await runs(2003)

    await eventually(gone)


async def refused(scene: Scene, name: str, port: int) -> None:
    reply = await scene.client.pods.proxy(name, port)
    assert reply.status == 503, reply
    raise Unavailable(reply.body.decode())


async def test_logs_of_this_life_and_the_last(scene: Scene) -> None:
    """A container that ends is started at once, then with a pause; each life has its log."""
    script = "echo $(($(cat /data/n 2>/dev/null || echo 0)+1)) > /data/n; cat /data/n; sleep 0.3"
    await scene.create(
        pod(
            "short",
            sh(f"{script}; exit 7", volumeMounts=[{"name": "data", "mountPath": "/data"}]),
            volumes=[{"name": "data", "emptyDir": {}}],
        )
    )
    found = await scene.until(
        "short",
        lambda one: any(
            status.state.waiting is not None and status.state.waiting.reason == "CrashLoopBackOff"
            for status in one.status.container_statuses
        ),
    )
    (container,) = found.status.container_statuses
    assert found.status.phase == "Running"
    assert container.restart_count == 1
    assert container.last_state.terminated is not None
    assert container.last_state.terminated.exit_code == 7
    assert container.last_state.terminated.reason == "Error"
    assert container.state.waiting is not None
    assert "back-off 10s" in container.state.waiting.message
    # As on a node: while the next life is waited for, the last one is the previous one.
    assert await scene.client.pods.log("short") == b"2\n"
    assert await scene.client.pods.log("short", previous=True) == b"2\n"

    async def told() -> bool:
        events = await scene.client.list(EVENTS)
        return "BackOff" in {event.reason for event in events.items}

    await eventually(told)
    with pytest.raises(NotFound, match="container not found"):
        await scene.client.pods.run("short", ["true"])


async def test_the_log_of_the_life_before(scene: Scene) -> None:
    """Of a container that runs again `previous` is what ran before; a first life has none."""
    script = "test -e /data/n && { echo second; exec sleep 1000; }; touch /data/n; echo first"
    await scene.create(
        pod(
            "again",
            sh(script, volumeMounts=[{"name": "data", "mountPath": "/data"}]),
            sh("echo only; exec sleep 1000", "steady"),
            volumes=[{"name": "data", "emptyDir": {}}],
        )
    )

    def runs_again(one: Pod) -> bool:
        counts = [status.restart_count for status in one.status.container_statuses]
        return one.ready and max(counts) == 1

    await scene.until("again", runs_again)
    assert await scene.client.pods.log("again", container="main", previous=True) == b"first\n"
    with pytest.raises(BadRequest, match='previous terminated container "steady"'):
        await scene.client.pods.log("again", container="steady", previous=True)


async def test_logs_are_cut_as_asked(scene: Scene) -> None:
    """Tail, bytes, time, timestamps, the container's name, and following until it ends."""
    data: Body = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    await scene.create(
        pod(
            "talk",
            sh("for i in 1 2 3; do echo line $i; done; read x < /data/go; echo end", **data),
            sh("echo side; exec sleep 1000", name="side", **data),
            initContainers=[sh("mkfifo /data/go", "init", **data)],
            volumes=[{"name": "data", "emptyDir": {}}],
            restartPolicy="Never",
        )
    )
    logs = scene.client.pods
    await scene.until("talk", lambda one: one.status.phase == "Running")
    with pytest.raises(
        BadRequest, match=r"choose one of: \[main side\] or one of the init containers: \[init\]"
    ):
        await logs.log("talk")
    with pytest.raises(BadRequest, match="container nobody is not valid"):
        await logs.log("talk", container="nobody")
    async with logs.open_log("talk", container="main", follow=True) as chunks:
        heard = b""
        async for chunk in chunks:
            heard += chunk
            if heard.endswith(b"line 3\n"):
                await scene.sh("talk", "echo x > /data/go", "side")
    assert heard == b"line 1\nline 2\nline 3\nend\n"
    assert await logs.log("talk", container="main", tail=1) == b"end\n"
    assert await logs.log("talk", container="main", limit=6) == b"3\nend\n"
    stamped = await logs.log("talk", container="main", tail=1, timestamps=True)
    moment, _, rest = stamped.partition(b" ")
    assert rest == b"end\n"
    assert moment.endswith(b"Z")
    now = SystemClock().now()
    assert await logs.log("talk", container="main", since=now.replace(year=now.year + 1)) == b""
    with pytest.raises(BadRequest, match="previous terminated container"):
        await logs.log("talk", container="main", previous=True)


async def test_init_containers_and_sidecars_in_order(scene: Scene) -> None:
    """One after the other; a sidecar's startup probe gates the rest, and it outlives the rest."""
    data: Body = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    trap = "trap 'echo {0} >> /data/end; exit 0' TERM; "
    await scene.create(
        pod(
            "order",
            sh(trap.format("main") + "echo main >> /data/log; while :; do sleep 0.1; done", **data),
            initContainers=[
                sh("sleep 0.2; echo first >> /data/log", "first", **data),
                sh(
                    trap.format("side")
                    + "sleep 0.3; echo side >> /data/log; touch /data/up; "
                    + "while :; do sleep 0.1; done",
                    "side",
                    restartPolicy="Always",
                    startupProbe={"exec": {"command": ["test", "-f", "/data/up"]}},
                    **data,
                ),
                sh("echo last >> /data/log", "last", **data),
            ],
            volumes=[{"name": "data", "emptyDir": {}}],
        )
    )
    found = await scene.ready("order")
    initialized = found.status.condition("Initialized")
    assert initialized is not None
    assert initialized.status == "True"
    order = await scene.sh("order", "sleep 0.2; cat /data/log", "main")
    assert order.split() == ["first", "side", "last", "main"]
    volume = scene.world.directory / "pods" / found.metadata.uid / "volumes" / "data"
    kept = (volume / "end").open  # the directory goes with the Pod: hold the file
    await scene.sh("order", "touch /data/end", "main")
    with kept() as file:
        await scene.client.delete(PODS, "order")
        await scene.gone("order")
        assert file.read().split() == ["main", "side"]


async def test_a_failed_init_container_fails_the_pod(scene: Scene) -> None:
    """With restartPolicy Never nothing is tried again, and the main container never starts."""
    await scene.create(
        pod("doomed", sh("echo no"), initContainers=[sh("exit 4", "init")], restartPolicy="Never")
    )
    found = await scene.until("doomed", lambda one: one.status.phase == "Failed")
    (init,) = found.status.init_container_statuses
    assert init.state.terminated is not None
    assert init.state.terminated.exit_code == 4
    (main,) = found.status.container_statuses
    assert main.state.waiting is not None


async def test_a_job_like_pod_completes(scene: Scene) -> None:
    """OnFailure tries again until it works; then the sidecar is ended and the Pod Succeeded."""
    data: Body = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    await scene.create(
        pod(
            "job",
            sh("test -f /data/tried && exit 0; touch /data/tried; exit 1", **data),
            initContainers=[sh("exec sleep 1000", "side", restartPolicy="Always")],
            restartPolicy="OnFailure",
            volumes=[{"name": "data", "emptyDir": {}}],
        )
    )
    found = await scene.until("job", lambda one: one.status.phase == "Succeeded")
    (main,) = found.status.container_statuses
    assert main.restart_count == 1
    assert main.state.terminated is not None
    assert main.state.terminated.reason == "Completed"
    await scene.client.delete(PODS, "job")
    await scene.gone("job")


async def test_readiness_follows_the_probe(scene: Scene) -> None:
    """Ready comes and goes with the answer, without a restart."""
    probe = {"exec": {"command": ["test", "-f", "/tmp/up"]}, "periodSeconds": 1}
    probe["failureThreshold"] = 1
    await scene.create(pod("moody", sh("exec sleep 1000", readinessProbe=probe)))
    await scene.until("moody", lambda one: one.status.phase == "Running")
    await scene.sh("moody", "touch /tmp/up")
    await scene.ready("moody")
    await scene.sh("moody", "rm /tmp/up")
    found = await scene.until("moody", lambda one: not one.ready)
    ready = found.status.condition("Ready")
    assert ready is not None
    assert ready.reason == "ContainersNotReady"
    assert "main" in ready.message
    assert found.status.container_statuses[0].restart_count == 0


async def test_a_ready_pod_has_no_stale_reason(scene: Scene) -> None:
    """What was said while it was not ready is gone when it is."""
    probe = {"exec": {"command": ["test", "-f", "/tmp/up"]}, "periodSeconds": 1}
    await scene.create(pod("late", sh("exec sleep 1000", readinessProbe=probe)))
    before = await scene.until(
        "late", lambda one: one.status.phase == "Running" and bool(one.status.conditions)
    )
    unready = before.status.condition("Ready")
    assert unready is not None
    assert unready.reason == "ContainersNotReady"
    await scene.sh("late", "touch /tmp/up")
    found = await scene.ready("late")
    assert [one for one in found.status.conditions if one.reason or one.message] == []


async def test_a_failing_probe_is_told_in_kubelets_words(scene: Scene) -> None:
    """As Events `Unhealthy`, about once a period although it is asked far more often."""
    deaf = sh("exec sleep 1000", ports=[{"containerPort": 8099}])
    await scene.create(
        pod("deaf", deaf | {"readinessProbe": {"tcpSocket": {"port": 8099}, "periodSeconds": 1}})
    )
    lost = server("x", readinessProbe={"httpGet": {"path": "/x", "port": 81}, "periodSeconds": 60})
    await scene.create(pod("lost", lost))

    async def words(name: str) -> list[str]:
        fields = f"involvedObject.name={name},reason=Unhealthy"
        return [one.message for one in (await scene.client.list(EVENTS, fields=fields)).items]

    async def told() -> bool:
        return bool(await words("deaf")) and bool(await words("lost"))

    await eventually(told)
    address = (await scene.client.get(PODS, "deaf")).status.pod_ip
    refused = f"dial tcp {address}:8099: connect: connection refused"
    assert set(await words("deaf")) == {f"Readiness probe failed: {refused}"}
    (once,) = await words("lost")
    assert once.startswith('Readiness probe failed: Get "http://127.')
    assert once.endswith(":81: connect: connection refused")


async def test_liveness_restarts(scene: Scene) -> None:
    """A container that stops answering is ended and started again."""
    probe = {"exec": {"command": ["test", "-f", "/tmp/up"]}, "periodSeconds": 1}
    await scene.create(pod("dull", sh("touch /tmp/up; exec sleep 1000", livenessProbe=probe)))
    first = await scene.ready("dull")
    await scene.sh("dull", "rm /tmp/up")
    again = await scene.until(
        "dull", lambda one: one.ready and one.status.container_statuses[0].restart_count == 1
    )
    before, after = (one.status.container_statuses[0].container_id for one in (first, again))
    assert before != after


async def test_memory_is_limited(scene: Scene) -> None:
    """A container that takes more than its limit is OOMKilled and comes back with its files."""
    assert scene.world.kubelet is not None
    if scene.world.kubelet.sandboxes.limits_unenforced:
        pytest.skip(scene.world.kubelet.sandboxes.limits_unenforced)
    eat = "test -f /data/ate && exec sleep 1000; touch /data/ate; exec tail /dev/zero"
    await scene.create(
        pod(
            "eater",
            sh(
                eat,
                resources={"limits": {"memory": "32Mi"}},
                volumeMounts=[{"name": "data", "mountPath": "/data"}],
            ),
            volumes=[{"name": "data", "emptyDir": {}}],
        )
    )
    found = await scene.until(
        "eater", lambda one: one.ready and one.status.container_statuses[0].restart_count == 1
    )
    last = found.status.container_statuses[0].last_state.terminated
    assert last is not None
    assert (last.reason, last.exit_code) == ("OOMKilled", 137)


async def test_two_pods_listen_on_one_port(scene: Scene) -> None:
    """Each has an address of its own, and both answer there under the port they chose."""
    await scene.create(pod("one", server("first")))
    await scene.create(pod("two", server("second")))
    one, two = await scene.ready("one"), await scene.ready("two")
    assert one.status.pod_ip != two.status.pod_ip
    for found, text in ((one, b"first"), (two, b"second")):
        assert (await fetch(found, 8080)).endswith(text)


async def test_a_taken_port_is_told(scene: Scene) -> None:
    """If somebody else listens at the Pod's address already, the annotation says where it is."""
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("0.0.0.0", 0))
        thief.listen()
        port = thief.getsockname()[1]
        await scene.create(pod("late", server("moved", port=port)))
        found = await scene.until("late", lambda one: one.ready and bool(one.metadata.annotations))
        guest, _, reached = found.metadata.annotations[names.PORTS].partition(":")
        assert guest == str(port) != reached
        assert (await fetch(found, port)).endswith(b"moved")

        async def told() -> bool:
            fields = "involvedObject.name=late,reason=PortTaken"
            said = [one.message for one in (await scene.client.list(EVENTS, fields=fields)).items]
            where = f"{found.status.pod_ip}:{reached}"
            words = f"port {port} is taken on this machine by another program; reached at {where}"
            return said == [words]

        await eventually(told)


async def test_a_program_that_does_not_exist_never_runs(scene: Scene) -> None:
    """No moment at which it runs or its Pod is Ready; the reason is in its status and Events."""
    seen: list[Pod] = []
    missing = {"name": "main", "image": "host", "command": ["/no/such/program"]}

    def backs_off(one: Pod) -> bool:
        seen.append(one)
        states = [status.state.waiting for status in one.status.container_statuses]
        return any(state is not None and state.reason == "CrashLoopBackOff" for state in states)

    await scene.create(pod("ghost", missing))
    found = await scene.until("ghost", backs_off)
    assert not any(one.ready for one in seen)
    assert not any(status.state.running for one in seen for status in one.status.container_statuses)
    (container,) = found.status.container_statuses
    assert container.state.waiting is not None
    assert container.state.waiting.message.endswith(": /no/such/program: not found")
    last = container.last_state.terminated
    assert last is not None
    assert (last.reason, last.exit_code) == ("StartError", 127)
    events = await scene.client.list(EVENTS)
    assert "/no/such/program: not found" in {event.message for event in events.items}
