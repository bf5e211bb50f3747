"""Objects come back from an API server with its defaults in them, and are still sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.store import Store
from boilerhouse.engines.children import State
from boilerhouse.engines.engines import build
from boilerhouse.engines.engines.assemble import assemble
from boilerhouse.engines.engines.model import EngineStatus
from tests.contract.driver import Api
from tests.unit.engines.engines.reading import ENGINE, klass, made, reads, spec
from tests.unit.engines.engines.seeing import P

# Everything that this API server lets a template say.
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
    "spec": {
        "serviceAccountName": "runner",
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "s"}],
        "volumes": [{"name": "extra", "emptyDir": {}}],
        "initContainers": [{"name": "init", "image": "i:1", "command": ["true"]}],
        "containers": [
            {
                "name": "engine",
                "image": "engine:1",
                "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}},
                "env": [
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
                ],
                "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
            },
            {"name": "side", "image": "s:1", "ports": [{"containerPort": 80}]},
        ],
    },
}
SPECS = {
    "least": spec(),
    "most": spec(template=TEMPLATE, customEngineConfig={"a": {"b": [1, 2.5, None, "x"]}}),
    "claims": spec(replicas=0, storage={"persistentVolumeClaim": {"size": "1024Mi"}}),
}


@pytest.mark.parametrize("name", SPECS)
async def test_nothing_that_a_server_adds_is_drift(name: str, tmp_path: Path) -> None:
    """All objects, read back, are sound: no generation follows from defaults."""
    of, by = SPECS[name], klass(template={"metadata": {"labels": {"class": "c"}}})
    whole = made(of, by)
    wanted = {
        "statefulsets": [build.statefulset(ENGINE, whole, 2)],
        "configmaps": [build.configmap(ENGINE, whole, 2)],
        "services": [
            build.headless(ENGINE, whole, 2),
            build.service(ENGINE, whole.profile, 2),
        ],
        "poddisruptionbudgets": [build.budget(ENGINE, 2)],
    }
    store = await Store.open(tmp_path)
    server = ApiServer(store, SystemClock())
    await server.start()
    try:
        api = Api(InProcess(server), "ns")
        (await api.create("namespaces", {"metadata": {"name": "ns"}})).ok()
        objects = [
            (await api.create(plural, body, dryRun="All")).ok()
            for plural, bodies in wanted.items()
            for body in bodies
        ]
    finally:
        await server.stop()
        await store.close()
    for one in objects:
        one["metadata"]["resourceVersion"] = "1"  # nothing was stored
    status = EngineStatus(
        phase=P.STABLE,
        current_generation=2,
        active_generation=2,
        current_render_hash=whole.wanted.hash,
        active_render_hash=whole.wanted.hash,
    )
    seen = assemble(reads(*objects, spec=of, klass=by, status=status))
    assert {child.state for child in seen.generation(2).children} == {State.SOUND}
    assert seen.service.child.state == State.SOUND and seen.service.selects == 2
    assert seen.wanted == whole.wanted
