"""Mutants of what is told of instances that cannot be used."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PODS = "tests/unit/tenancy/instances/test_pods.py::"
_PROBES = "tests/unit/embedded/kubelet/containers/test_probes.py::"
_STATUS = "tests/unit/embedded/kubelet/objects/test_status.py::"
_TOLD = "tests/unit/edge/api/test_told.py::"

MUTANTS = {
    "a restore is told as a crash": Mutant(
        "boilerhouse.tenancy.instances.pods",
        'ended.container_id == restored.container != "":',
        'ended.container_id == "":',
        _PODS + "test_the_restart_that_brings_the_files_is_no_crash",
    ),
    "a claim waits for a crash loop to end": Mutant(
        "boilerhouse.tenancy.claims.requests.acquire",
        "ready.reason == CRASH_LOOP",
        'ready.reason == ""',
        _TOLD + "test_a_crash_loop_is_told_at_once",
    ),
    "every attempt of a probe is told": Mutant(
        "boilerhouse.embedded.kubelet.containers.probes",
        "self._quiet_until = now + self._timing.period * 0.9",
        "self._quiet_until = now",
        _PROBES + "test_a_failure_is_told_once_a_period",
    ),
    "a reason outlives its condition": Mutant(
        "boilerhouse.embedded.kubelet.objects.status",
        "{**wanted, **dict.fromkeys(stale)} if stale else wanted",
        "wanted",
        _STATUS + "test_a_condition_that_is_met_leaves_no_reason_behind",
    ),
    "the port of another program is answered": Mutant(
        "boilerhouse.tenancy.instances.pods",
        "(port.container_port, moved.get(port.container_port, port.container_port))",
        "(port.container_port, port.container_port)",
        _TOLD + "test_every_port_is_told_with_where_it_is_reached",
    ),
}
