"""Small wrong changes, each with the test that must catch it.

A guard that can be taken out without any test noticing is not known to work.
"""

from __future__ import annotations

from tests.mutants import archives, commits, disruptions, limits, telling
from tests.mutants.mutant import Mutant

_DECIDE = "tests/unit/tenancy/claims/test_decide.py::"
_STORE = "tests/unit/node/helper/store/test_store.py::"
_HELPER_SAVES = "tests/unit/node/helper/operations/test_saving.py::"
_COMING_BACK = "tests/unit/tenancy/claims/deciding/test_restoring.py::"
_RELEASING = "tests/unit/tenancy/claims/deciding/test_releasing.py::"
_FILES = "tests/controllers/test_files.py::"
_HAZARDS = "tests/controllers/test_hazards.py::"
_FREEZER = "tests/security/test_sandbox_freezer.py::"
_STANDSTILL = "tests/unit/embedded/kubelet/containers/test_standstill.py::"
_STANDBY = "tests/unit/embedded/kubelet/containers/test_standby.py::"
_RESTORING = "tests/unit/node/agent/test_restoring.py::"
_HALTING = "tests/unit/node/agent/freezer/test_processes.py::test_in_a_process_namespace"
_RECORD = "tests/faults/test_record_powerloss.py::test_what_was_written_is_there_after_a_power_loss"
_IDLE = "tests/unit/tenancy/idle/test_verdict.py::"

_ELSEWHERE = archives.MUTANTS | commits.MUTANTS | disruptions.MUTANTS | limits.MUTANTS
_ELSEWHERE |= telling.MUTANTS

MUTANTS = _ELSEWHERE | {
    "delete by UID alone": Mutant(
        "boilerhouse.platform.kube.cas",
        "seen.name, uid=seen.uid, resource_version=seen.version, grace=grace",
        "seen.name, uid=seen.uid, grace=grace",
        _HAZARDS + "test_a_stale_pool_does_not_delete_a_pod_that_was_just_bound",
    ),
    "absence by the cache": Mutant(
        "boilerhouse.tenancy.instances.objects",
        "            return await self.look_live(name)\n        return self.view(cached)",
        "            return None\n        return self.view(cached)",
        _HAZARDS + "test_a_cache_that_knows_nothing_releases_nothing",
    ),
    "strays by a cached claim": Mutant(
        "boilerhouse.tenancy.claims.read",
        "if claim is None or strays:",
        "if claim is None:",
        _HAZARDS + "test_an_old_claim_in_the_cache_makes_no_stray",
    ),
    "strays stay": Mutant(
        "boilerhouse.tenancy.claims.decide",
        "    if seen.strays:\n",
        "    if seen.strays and claim is None:\n",
        _DECIDE + "test_strays_go_before_anything_else",
    ),
    "choose again without deleting": Mutant(
        "boilerhouse.tenancy.claims.deciding.obtaining",
        'return Do((DeletePod(pod, "a claim had chosen it, and it is not fit to be used"),))',
        "return _choice(seen, claim)",
        _DECIDE + "test_a_warm_pod_that_is_not_fit_is_deleted_before_another_is_chosen",
    ),
    "any template will do": Mutant(
        "boilerhouse.tenancy.claims.deciding.obtaining",
        "        and pod.template == workload.template\n",
        "",
        _DECIDE + "test_a_warm_pod_that_is_not_fit_is_deleted_before_another_is_chosen",
    ),
    "any node will do": Mutant(
        "boilerhouse.tenancy.claims.deciding.obtaining",
        "        and on_healthy_node\n",
        "",
        _DECIDE + "test_a_warm_pod_on_a_sick_node_is_not_used",
    ),
    "any tenant id will do": Mutant(
        "boilerhouse.tenancy.claims.deciding.obtaining",
        "    if not is_tenant_id(claim.tenant):",
        "    if False:",
        _DECIDE + "test_a_bad_tenant_id_is_an_error_at_once",
    ),
    "a Pending claim keeps a Pod of an older spec": Mutant(
        "boilerhouse.tenancy.claims.deciding.obtaining",
        "    if _is_outdated(pod, seen.workload) and not isinstance(found, _Usable):\n",
        "    if False:\n",
        "tests/controllers/test_claims.py::test_a_pending_claim_takes_up_a_repaired_workload",
    ),
    "a Pod of an older spec goes before another is chosen": Mutant(
        "boilerhouse.tenancy.claims.deciding.obtaining",
        "        # that can be used is what the claim had asked for.\n"
        "        return _choice(seen, claim)\n",
        '        return Do((DeletePod(pod, "it was made from an older blueprint"),))\n',
        _DECIDE + "test_an_own_pod_of_an_older_spec_is_given_up_while_it_cannot_be_used",
    ),
    "a Pod that can be used is replaced": Mutant(
        "boilerhouse.tenancy.claims.deciding.obtaining",
        " and not isinstance(found, _Usable):",
        ":",
        _DECIDE + "test_an_own_pod_of_an_older_spec_is_used_if_it_can_be",
    ),
    "a Pod that was Active is replaced": Mutant(
        "boilerhouse.tenancy.claims.decide",
        "    return _BY_PHASE[claim.status.phase](seen, claim)\n",
        "    if seen.pod and seen.workload and seen.pod.template != seen.workload.template:\n"
        '        return with_backoff(seen, DeletePod(seen.pod, "it is of an older blueprint"))\n'
        "    return _BY_PHASE[claim.status.phase](seen, claim)\n",
        _DECIDE + "test_a_pod_that_was_active_is_not_replaced",
    ),
    "Active without looking for rivals": Mutant(
        "boilerhouse.tenancy.claims.deciding.obtaining",
        "    if not seen.sole or look_up:\n",
        "    if look_up:\n",
        _DECIDE + "test_nothing_becomes_active_before_rivals_were_looked_for",
    ),
    "Running is enough": Mutant(
        "boilerhouse.tenancy.instances.seen",
        "return self.running and self.ready and bool(self.ip)",
        "return self.running and bool(self.ip)",
        _DECIDE + "test_a_bound_pod_that_is_not_ready_is_waited_for",
    ),
    "dying Pods are usable": Mutant(
        "boilerhouse.tenancy.instances.seen",
        " and bool(self.ip) and not self.terminating",
        " and bool(self.ip)",
        "tests/unit/tenancy/instances/test_pods.py::test_a_pod_that_is_up_is_usable",
    ),
    "source written again": Mutant(
        "boilerhouse.tenancy.claims.deciding.obtaining",
        "source=status.source or restoring.source_of",
        "source=restoring.source_of",
        _DECIDE + "test_source_and_time_are_written_once",
    ),
    "status without compare-and-swap": Mutant(
        "boilerhouse.core.difference",
        '{"uid": seen.uid, "resourceVersion": seen.version}',
        '{"uid": seen.uid}',
        _HAZARDS + "test_8_what_happens_to_a_claim_meanwhile_wins",
    ),
    "all finalizers go": Mutant(
        "boilerhouse.core.difference",
        "if finalizer != FINALIZER]",
        "if not finalizer]",
        _HAZARDS + "test_9_only_our_own_finalizer_is_removed",
    ),
    "a bound Pod stays in its pool": Mutant(
        "boilerhouse.tenancy.claims.build",
        "            names.POOL: None,\n",
        "",
        "tests/controllers/test_claims.py::test_a_claim_takes_a_warm_instance",
    ),
    "spares are not reserved": Mutant(
        "boilerhouse.tenancy.claims.reading.spares",
        "                self._holders[name] = holder\n",
        "",
        "tests/unit/tenancy/claims/reading/test_spares.py::test_many_holders_get_different_pods",
    ),
    "a look for rivals holds for ever": Mutant(
        "boilerhouse.tenancy.claims.reading.memory",
        'return claim.uid if claim.canonical else f"{claim.uid} at {claim.version}"',
        "return claim.uid",
        "tests/unit/tenancy/claims/reading/test_memory.py::test_another_name_is_sole_at_one_version_only",
    ),
    "waiting by the wall clock": Mutant(
        "boilerhouse.tenancy.instances.patience",
        "now = self._clock.monotonic()",
        "now = self._clock.now().timestamp()",
        "tests/unit/tenancy/instances/test_patience.py::test_a_clock_that_jumps_makes_nobody_wait_longer",
    ),
    "an Active claim's Pod by the cache": Mutant(
        "boilerhouse.tenancy.claims.read",
        "if pod is not None and claim.status.claimed_at is not None and not claim.owns(pod):",
        "if pod is None and claim.status.claimed_at is not None:",
        _HAZARDS + "test_a_pod_that_is_heard_of_late_is_not_lost",
    ),
    "delete before the save": Mutant(
        "boilerhouse.tenancy.claims.deciding.releasing",
        "plan = _saving(seen, claim, pod) if _must_save(claim, pod) else None",
        "plan = None",
        _RELEASING + "test_files_are_saved_before_the_pod_goes",
    ),
    "delete before it is written down": Mutant(
        "boilerhouse.tenancy.claims.deciding.releasing",
        "    if seen.saved is not None:\n"
        "        return _written_down(seen, claim, pod, seen.saved)\n",
        "    if seen.saved is not None:\n        return None\n",
        _RELEASING + "test_files_are_saved_before_the_pod_goes",
    ),
    "any life was saved": Mutant(
        "boilerhouse.tenancy.claims.deciding.releasing",
        "if refs.saved and past.saved_of == pod.incarnation:",
        "if refs.saved:",
        _RELEASING + "test_another_life_of_the_pod_is_saved_again",
    ),
    "what was saved is given back": Mutant(
        "boilerhouse.tenancy.claims.deciding.releasing",
        "final = pod.terminating or bool(refs.saved)",
        "final = pod.terminating",
        _RELEASING + "test_what_is_saved_once_is_never_given_back",
    ),
    "a save without its base": Mutant(
        "boilerhouse.tenancy.claims.deciding.releasing",
        "return Save(pod, refs.base, release_of(claim.status).epoch, keep, clean)",
        'return Save(pod, "", release_of(claim.status).epoch, keep, clean)',
        _RELEASING + "test_files_are_saved_before_the_pod_goes",
    ),
    "a save without its round": Mutant(
        "boilerhouse.tenancy.claims.deciding.releasing",
        "return Save(pod, refs.base, release_of(claim.status).epoch, keep, clean)",
        "return Save(pod, refs.base, 0, keep, clean)",
        "tests/sim/test_stories.py::test_a_save_that_comes_late_freezes_nobody",
    ),
    "Active without its files": Mutant(
        "boilerhouse.tenancy.claims.deciding.obtaining",
        "if filled and (pod.usable or frozen):",
        "if pod.usable or frozen:",
        _COMING_BACK + "test_a_ready_pod_without_its_files_is_not_active",
    ),
    "a failed save lets a full tenant run": Mutant(
        "boilerhouse.node.agent.freezer.hold",
        "        if self.full:\n            try:\n",
        "        if False:\n            try:\n",
        "tests/unit/node/agent/disk/test_guard.py::test_a_save_takes_over_and_gives_back",
    ),
    "a full tenant thaws at its limit": Mutant(
        "boilerhouse.node.agent.disk.limit",
        "share = THAW_BELOW if frozen else 1.0",
        "share = 1.0",
        "tests/unit/node/agent/disk/test_guard.py::test_frozen_at_the_limit_and_thawed_below_95_percent",
    ),
    "the old process counts": Mutant(
        "boilerhouse.tenancy.claims.deciding.restoring",
        "if pod.restored.container and pod.restored.container == pod.container:",
        "if not pod.restored.digest:",
        _COMING_BACK + "test_a_warm_pod_is_filled_and_begins_anew",
    ),
    "restore without writing it down": Mutant(
        "boilerhouse.tenancy.claims.deciding.restoring",
        "    plan = written_down(seen, claim)\n    if plan is not None:\n        return plan\n",
        "",
        _COMING_BACK + "test_what_is_restored_is_written_down_first",
    ),
    "restore again what is restored": Mutant(
        "boilerhouse.tenancy.claims.deciding.restoring",
        "    if pod.restored is not None:\n        if pod.restored.container and",
        "    if pod.restored is not None and not pod.usable:\n"
        "        if pod.restored.container and",
        _COMING_BACK + "test_a_warm_pod_is_filled_and_begins_anew",
    ),
    "a restore that failed is one that worked": Mutant(
        "boilerhouse.tenancy.claims.applying.files",
        "            raise Refused(corrupt_message(step.digest, str(error))) from error\n",
        "            skipped = ()\n",
        _FILES + "test_a_damaged_version_is_never_an_empty_instance",
    ),
    "nothing is looked up": Mutant(
        "boilerhouse.tenancy.claims.deciding.restoring",
        "return (LookUpSnapshot(must=claim.resume),)",
        "return ()",
        _COMING_BACK + "test_nothing_becomes_active_before_it_was_looked_up",
    ),
    "a clean start that nobody could tell about has no past": Mutant(
        "boilerhouse.tenancy.claims.deciding.releasing",
        "    return None if known else LookUpSnapshot()",
        "    return None",
        "tests/unit/tenancy/claims/deciding/test_releasing.py"
        "::test_what_a_clean_start_may_replace_is_looked_up_if_nobody_knew",
    ),
    "idle by what was seen long ago": Mutant(
        "boilerhouse.platform.kube.cas",
        "                bound(seen, patch),\n",
        '                patch if "status" in patch else bound(seen, patch),\n',
        _FILES + "test_activity_that_races_idleness_wins",
    ),
    "an instance is evicted for its disk": Mutant(
        "boilerhouse.embedded.kubelet.objects.containerspec",
        'container.get("restartPolicy") == "Always" and built_in(container)',
        'container.get("restartPolicy") == "Never" and built_in(container)',
        "tests/unit/embedded/kubelet/node/test_evicting.py::test_a_pod_with_our_sidecar_is_an_instance",
    ),
    "what is given up of the reserve looks like room": Mutant(
        "boilerhouse.embedded.kubelet.node.diskroom",
        "return Room(self.bytes - size, left)",
        "return Room(self.bytes, left)",
        "tests/unit/embedded/kubelet/node/test_diskroom.py::test_what_is_missing_of_the_reserve_counts_as_used",
    ),
    "half a piece of the reserve counts": Mutant(
        "boilerhouse.platform.files.ballast",
        "return found.st_size == size and found.st_blocks * 512 >= size",
        "return found.st_size == size",
        "tests/unit/platform/files/test_ballast.py::test_the_reserve_of_an_earlier_life_counts",
    ),
    "a full machine is held against who was there before": Mutant(
        "boilerhouse.node.agent.disk.guard",
        "        self._base = self._base or usage",
        "        self._base = self._starts_with",
        "tests/unit/node/agent/disk/test_guard.py::test_on_a_full_machine_who_writes_on_is_frozen",
    ),
    "failed Pods are replaced at once": Mutant(
        "boilerhouse.tenancy.pools.decide",
        "_Fill() if any(gone.failed for gone in unfit) else _fill(seen, pool, kept)",
        "_fill(seen, pool, kept)",
        "tests/unit/tenancy/pools/test_decide.py::test_failed_and_stuck_pods_are_removed_and_counted",
    ),
    "what cannot be read is idle": Mutant(
        "boilerhouse.tenancy.idle.verdict",
        "        if not changes.complete:\n",
        "        if not changes.complete and not changes.trouble:\n",
        _IDLE + "test_unreadable_directories_are_not_idleness",
    ),
    "files from the future keep it busy": Mutant(
        "boilerhouse.tenancy.idle.verdict",
        "if moment is not None and moment <= now + SKEW]",
        "if moment is not None]",
        _IDLE + "test_changes_dated_ahead_do_not_keep_it_busy",
    ),
    "an answer from before the deadline will do": Mutant(
        "boilerhouse.tenancy.idle.verdict",
        "if changes is None or changes.asked_at < deadline:",
        "if changes is None:",
        _IDLE + "test_after_a_moved_deadline_it_is_asked_again",
    ),
    "an old answer will do": Mutant(
        "boilerhouse.tenancy.idle.verdict",
        "        if now - changes.asked_at > FRESH:\n",
        "        if False:\n",
        _IDLE + "test_an_old_answer_proves_nothing",
    ),
    "answered before activity is noted": Mutant(
        "boilerhouse.edge.api.activity",
        "        await pending.tried.wait()\n",
        "",
        "tests/unit/edge/api/test_activity.py::test_near_the_deadline_the_note_is_written_first",
    ),
    "stored files exchanged under a running instance": Mutant(
        "boilerhouse.edge.api.stored",
        "        if phase_of(claim) in _AT_WORK:\n",
        "        if False:\n",
        "tests/unit/edge/api/handlers/test_snapshots.py::test_a_claim_without_an_instance_yet_uses_its_files",
    ),
    "a second restore": Mutant(
        "boilerhouse.node.agent.restoring",
        "            if found is None:\n",
        "            if True:\n",
        _RESTORING + "test_nothing_is_ever_restored_twice",
    ),
    "restored without verifying": Mutant(
        "boilerhouse.node.agent.restoring",
        "        if packed.sha256 != digest:\n",
        "        if not packed.sha256:\n",
        _RESTORING + "test_wrong_bytes_are_no_data",
    ),
    "a restore failed and the tenant runs": Mutant(
        "boilerhouse.node.agent.freezer.hold",
        "is not Why.NOTHING:\n                await self._processes.freeze()",
        "is not Why.NOTHING:\n                await self.let_go()",
        _RESTORING + "test_wrong_bytes_are_no_data",
    ),
    "SIGTERM after a restore": Mutant(
        "boilerhouse.node.agent.freezer.processes",
        "_send(pid, signal.SIGKILL)",
        "_send(pid, signal.SIGTERM)",
        _HALTING + "[kills_the_halted]",
    ),
    "SIGTERM after a restore, on one machine": Mutant(
        "boilerhouse.embedded.kubelet.pod.neighbours",
        "running.signal(signal.SIGKILL)",
        "running.signal(signal.SIGTERM)",
        _STANDSTILL + "test_after_a_restore_the_next_life_begins_at_once",
    ),
    "a tenant is started in the middle of a save": Mutant(
        "boilerhouse.embedded.kubelet.containers.standstill",
        "        self._off.clear()\n",
        "",
        _STANDSTILL + "test_a_crashed_tenant_stays_down_while_it_is_halted",
    ),
    "a tenant that goes on has a second life beside it": Mutant(
        "boilerhouse.embedded.kubelet.pod.neighbours",
        "            loop.forget_next()\n",
        "            continue\n",
        _STANDBY + "test_a_tenant_that_goes_on_has_no_next_life",
    ),
    "a command that is cut off lives on in its session": Mutant(
        "boilerhouse.embedded.kubelet.sandbox.execing",
        "                if self._session is not None:\n"
        "                    await self._session.kill(self._child.pid)\n",
        "",
        _FREEZER + "test_a_command_that_is_cut_off_ends_with_all_it_started",
    ),
    "a tenant that does not come to rest keeps its place": Mutant(
        "boilerhouse.node.helper.operations.saving",
        "                place.leave()\n",
        "                pass\n",
        _HELPER_SAVES + "test_who_does_not_come_to_rest_keeps_nobody_waiting",
    ),
    "let go before it is time": Mutant(
        "boilerhouse.embedded.kubelet.sandbox.execing",
        '"gated": True',
        '"gated": False',
        "tests/security/test_sandbox_life.py::test_who_stands_at_the_gate_has_seen_nothing",
    ),
    "one that was killed at its gate is let go": Mutant(
        "boilerhouse.embedded.kubelet.containers.standby",
        "        return made is not None and made.stands\n",
        "        return made is not None\n",
        _STANDBY + "test_without_one_that_stands_it_starts_as_ever[killed]",
    ),
    "half a restore is saved": Mutant(
        "boilerhouse.node.agent.freezer.hold",
        "        if self.unrestored or self.restoring:\n",
        "        if self.restoring:\n",
        "tests/unit/node/agent/test_saving.py::test_what_was_not_restored_is_not_saved",
    ),
    "an unstable save is committed": Mutant(
        "boilerhouse.node.agent.saving",
        "            if not report.stable:\n",
        "            if not report.sha256:\n",
        "tests/unit/node/agent/test_saving.py::test_what_changes_meanwhile_is_told",
    ),
    "a baseline outlives a thaw": Mutant(
        "boilerhouse.node.agent.freezer.hold",
        "        await self._record.thawing()\n",
        "",
        "tests/unit/node/agent/test_saving.py::test_a_tenant_that_ran_on_has_no_baseline",
    ),
    "a parent that waits in vfork is never at rest": Mutant(
        "boilerhouse.platform.processes.freezing",
        "            if self._vforking.at_rest(pid, stopped, self.seconds):\n",
        "            if not pid:\n",
        _HALTING + "[vfork_hangs]",
    ),
    "a parent that waits for a disk is at rest": Mutant(
        "boilerhouse.platform.processes.freezing",
        "            if self._vforking.at_rest(pid, stopped, self.seconds):\n",
        "            if pid:\n",
        _HALTING + "[a_disk_is_no_vfork]",
    ),
    "the record is not synced": Mutant(
        "boilerhouse.node.agent.record",
        "            os.fsync(opened)\n",
        "",
        _RECORD,
    ),
    "the record's name is not synced": Mutant(
        "boilerhouse.node.agent.record",
        "            sync_directory(self._directory)\n",
        "",
        _RECORD,
    ),
    "a rename before the bytes are synced": Mutant(
        "boilerhouse.node.helper.store.volume",
        "            os.fsync(self._file)\n",
        "",
        _STORE + "test_the_order_of_a_commit",
    ),
    "acknowledged before the commit is synced": Mutant(
        "boilerhouse.node.helper.store.shelves",
        "            volume.sync(tenant)\n        return replace(shelf, current=stored)",
        "        return replace(shelf, current=stored)",
        _STORE + "test_the_order_of_a_commit",
    ),
    "what was stored is not read again": Mutant(
        "boilerhouse.node.helper.store.volume",
        "        if found != (self.digest, self.size):\n",
        "        if not found:\n",
        _STORE + "test_what_reads_differently_is_not_stored",
    ),
    "the agent's hash is not compared": Mutant(
        "boilerhouse.node.helper.operations.saving",
        "        if (report.sha256, report.size) != (incoming.digest, incoming.size):\n",
        "        if not report.sha256:\n",
        _HELPER_SAVES + "test_other_bytes_than_were_sent",
    ),
    "any save replaces current": Mutant(
        "boilerhouse.node.helper.store.store",
        "            replaces = not side_version and rules.may_replace(shelf, base, pod)\n",
        "            replaces = not side_version\n",
        _STORE + "test_a_conflict",
    ),
    "what a clean start replaces is pruned": Mutant(
        "boilerhouse.node.helper.store.rules",
        "    return None if held else current\n",
        "    return None\n",
        _STORE + "test_what_a_clean_start_replaces_is_never_pruned",
    ),
    "who always starts clean fills the volume": Mutant(
        "boilerhouse.node.helper.store.rules",
        "if current is None or not clean or current.manifest.clean:",
        "if current is None or not clean:",
        _STORE + "test_always_starting_clean_does_not_fill_the_volume",
    ),
    "a trailer is a header": Mutant(
        "boilerhouse.platform.serving.listening",
        "        if not self._in_header:\n            return  # a trailer",
        "        if False:\n            return  # a trailer",
        "tests/unit/embedded/apiserver/http/test_serving.py::test_a_trailer_is_no_header",
    ),
    "current is pruned": Mutant(
        "boilerhouse.node.helper.store.rules",
        " and one != shelf.current\n",
        "\n",
        "tests/unit/node/helper/store/test_rules.py::test_pruning",
    ),
    "damaged bytes are restored": Mutant(
        "boilerhouse.node.helper.operations.transfer",
        "not piece or (not self._left and self._hash.hexdigest() != self._digest)",
        "not piece",
        "tests/unit/node/helper/operations/test_restoring.py::test_damage_that_shows_midway",
    ),
    "a save that its agent gave up is a success": Mutant(
        "boilerhouse.node.helper.operations.saving",
        '        if refused.code != "agent-unreachable":\n            raise\n',
        '        if refused.code != "agent-unreachable":\n            return\n',
        _HELPER_SAVES + "test_an_agent_that_gave_up_waiting",
    ),
    "an unstable tree is stored": Mutant(
        "boilerhouse.node.helper.operations.saving",
        "                if not report.stable:\n",
        "                if not report.sha256:\n",
        _HELPER_SAVES + "test_a_tree_that_changes",
    ),
    "whoever hangs up stops the save": Mutant(
        "boilerhouse.node.helper.operations.jobs",
        "        await asyncio.wait(\n"
        "            {job.task, left}, timeout=self._patience,"
        " return_when=asyncio.FIRST_COMPLETED\n"
        "        )\n",
        "        await asyncio.wait_for(job.task, self._patience)\n",
        _HELPER_SAVES + "test_whoever_hangs_up_stops_nothing",
    ),
    "links into the volume are followed": Mutant(
        "boilerhouse.node.helper.store.volume",
        "DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
        "DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC",
        _STORE + "test_links_are_not_followed",
    ),
}
