"""Deletion: grace, finalizers, preconditions, collections; and who is collected after whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.driver import Api
from tests.contract.objects import config_map, owned, pod, widget


def _options(**options: Any) -> dict[str, Any]:
    return {"kind": "DeleteOptions", "apiVersion": "v1", **options}


async def test_delete(api: Api) -> None:
    """A deletion that is done at once answers with a Status; the object is gone."""
    created = (await api.create("configmaps", config_map("a"))).ok()
    answer = await api.delete("configmaps", "a")
    assert answer.code == 200
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")
    assert answer.body["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": created["metadata"]["uid"],
    }
    failure = (await api.get("configmaps", "a")).status(404, "NotFound")
    assert failure["message"] == 'configmaps "a" not found'


async def test_delete_of_nothing(api: Api) -> None:
    """What is not there cannot be deleted: 404."""
    (await api.delete("configmaps", "a")).status(404, "NotFound")


async def test_a_name_can_be_used_again(api: Api) -> None:
    """An object of the same name born later is another object."""
    first = (await api.create("configmaps", config_map("a"))).ok()
    (await api.delete("configmaps", "a")).ok()
    second = (await api.create("configmaps", config_map("a"))).ok()
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


@pytest.mark.parametrize("resource", ["configmaps", "widgets"])
async def test_preconditions(api: Api, resource: str) -> None:
    """A deletion can be bound to a uid and a resourceVersion; anything else is 409."""
    body = config_map("a") if resource == "configmaps" else widget("a")
    created = (await api.create(resource, body)).ok()
    uid = created["metadata"]["uid"]
    version = created["metadata"]["resourceVersion"]
    for wrong in (
        {"uid": "11111111-1111-1111-1111-111111111111"},
        {"resourceVersion": str(int(version) - 1)},
        {"uid": uid, "resourceVersion": "1"},
    ):
        (await api.delete(resource, "a", _options(preconditions=wrong))).status(409, "Conflict")
    right = {"uid": uid, "resourceVersion": version}
    assert (await api.delete(resource, "a", _options(preconditions=right))).code == 200
    (await api.get(resource, "a")).status(404, "NotFound")


async def test_a_finalizer_holds(api: Api) -> None:
    """With finalizers a deletion marks; the object goes when the last one is taken away."""
    body = widget("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    created = (await api.create("widgets", body)).ok()
    answer = await api.delete("widgets", "a")
    assert answer.code == 200
    marked = answer.ok()
    assert marked["kind"] == "Widget"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert marked["metadata"]["generation"] == created["metadata"]["generation"] + 1
    again = (await api.delete("widgets", "a")).ok()
    assert again["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    assert again["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    version = marked["metadata"]["resourceVersion"]
    async with api.watch("widgets", resourceVersion=version) as events:
        freed = await api.patch("widgets", "a", {"metadata": {"finalizers": None}})
        assert freed.code == 200
        assert await events.take(1) == [("DELETED", "a")]
    (await api.get("widgets", "a")).status(404, "NotFound")


async def test_what_is_being_deleted_can_be_changed(api: Api) -> None:
    """Status and data still change under a finalizer, but no finalizer may be added."""
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    (await api.create("configmaps", body)).ok()
    (await api.delete("configmaps", "a")).ok()
    assert (await api.patch("configmaps", "a", {"data": {"x": "1"}})).ok()["data"] == {"x": "1"}
    finalizers = ["example.com/hold", "example.com/more"]
    answer = await api.patch("configmaps", "a", {"metadata": {"finalizers": finalizers}})
    assert answer.causes() == {("metadata.finalizers", "FieldValueForbidden")}
    stamp = {"metadata": {"deletionTimestamp": None}}
    kept = (await api.patch("configmaps", "a", stamp)).ok()
    assert kept["metadata"]["deletionTimestamp"]
    (await api.patch("configmaps", "a", {"metadata": {"finalizers": []}})).ok()
    await api.gone("configmaps", "a")


async def test_bad_finalizers(api: Api) -> None:
    """A finalizer without a domain is refused on custom resources."""
    body = widget("a")
    body["metadata"]["finalizers"] = ["no spaces allowed"]
    answer = await api.create("widgets", body)
    assert ("metadata.finalizers", "FieldValueInvalid") in answer.causes()


async def test_a_running_pod_is_given_grace(api: Api) -> None:
    """A Pod on a node is marked with its grace; it goes when its kubelet says grace 0."""
    body = pod("a", nodeName="somewhere", terminationGracePeriodSeconds=7)
    (await api.create("pods", body)).ok()
    (await api.patch("pods", "a", {"status": {"phase": "Running"}}, "status")).ok()
    marked = (await api.delete("pods", "a")).ok()
    assert marked["kind"] == "Pod"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    assert marked["metadata"]["deletionTimestamp"] > marked["metadata"]["creationTimestamp"]
    shorter = (await api.delete("pods", "a", _options(gracePeriodSeconds=2))).ok()
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 2
    longer = (await api.delete("pods", "a", _options(gracePeriodSeconds=60))).ok()
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 2
    uid = marked["metadata"]["uid"]
    options = _options(gracePeriodSeconds=0, preconditions={"uid": uid})
    assert (await api.delete("pods", "a", options)).code == 200
    (await api.get("pods", "a")).status(404, "NotFound")


async def test_a_pod_without_a_node_goes_at_once(api: Api) -> None:
    """Nobody has to stop what never started."""
    (await api.create("pods", pod("a"))).ok()
    (await api.delete("pods", "a")).ok()
    (await api.get("pods", "a")).status(404, "NotFound")


async def test_a_finished_pod_goes_at_once(api: Api) -> None:
    """Nobody has to stop what has ended."""
    (await api.create("pods", pod("a", nodeName="somewhere"))).ok()
    (await api.patch("pods", "a", {"status": {"phase": "Succeeded"}}, "status")).ok()
    (await api.delete("pods", "a")).ok()
    (await api.get("pods", "a")).status(404, "NotFound")


async def test_grace_by_query(api: Api) -> None:
    """gracePeriodSeconds may come as a parameter."""
    (await api.create("pods", pod("a", nodeName="somewhere"))).ok()
    marked = (await api.delete("pods", "a", gracePeriodSeconds=3)).ok()
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 3
    assert (await api.delete("pods", "a", gracePeriodSeconds=0)).code == 200
    (await api.get("pods", "a")).status(404, "NotFound")


async def test_default_grace_of_a_pod(api: Api) -> None:
    """Thirty seconds unless the Pod says otherwise."""
    created = (await api.create("pods", pod("a", nodeName="somewhere"))).ok()
    assert created["spec"]["terminationGracePeriodSeconds"] == 30
    marked = (await api.delete("pods", "a")).ok()
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    (await api.delete("pods", "a", gracePeriodSeconds=0)).ok()


async def test_negative_grace_is_refused(api: Api) -> None:
    """A negative grace is no grace; Kubernetes reads it as one second."""
    (await api.create("pods", pod("a", nodeName="somewhere"))).ok()
    marked = (await api.delete("pods", "a", _options(gracePeriodSeconds=-1))).ok()
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 1


async def test_bad_delete_options(api: Api) -> None:
    """Two ways to say the propagation exclude each other, and unknown ones are refused."""
    (await api.create("configmaps", config_map("a"))).ok()
    both = _options(propagationPolicy="Orphan", orphanDependents=True)
    (await api.delete("configmaps", "a", both)).status(422, "Invalid")
    (await api.delete("configmaps", "a", _options(propagationPolicy="Sideways"))).status(
        422, "Invalid"
    )
    assert (await api.delete("configmaps", "a", b"{")).code in (400, 500)
    assert (await api.get("configmaps", "a")).code == 200


async def test_delete_collection(api: Api) -> None:
    """A deletion of the collection removes what the selector matches, and lists it."""
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"x": "1"})):
        (await api.create("configmaps", config_map(name, labels))).ok()
    answer = await api.delete("configmaps", labelSelector="x=1")
    assert answer.code == 200
    assert answer.ok()["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer.ok()["items"]] == ["a", "c"]
    assert await api.names("configmaps") == ["b"]
    (await api.delete("configmaps")).ok()
    assert await api.names("configmaps") == []


class TestOwners:
    """What a garbage collector does for objects with owners."""

    async def _family(self, api: Api, **kind: Any) -> dict[str, Any]:
        owner = (await api.create("configmaps", config_map("owner"))).ok()
        owner |= {"apiVersion": "v1", "kind": "ConfigMap"}
        (await api.create("configmaps", owned(config_map("child"), owner, **kind))).ok()
        child = (await api.get("configmaps", "child")).ok()
        (await api.create("secrets", owned({"metadata": {"name": "grandchild"}}, child))).ok()
        return owner

    async def test_background(self, api: Api) -> None:
        """The owner goes at once, its dependents and theirs soon after."""
        await self._family(api)
        (await api.delete("configmaps", "owner", _options(propagationPolicy="Background"))).ok()
        (await api.get("configmaps", "owner")).status(404, "NotFound")
        await api.gone("configmaps", "child")
        await api.gone("secrets", "grandchild")

    async def test_background_is_the_default(self, api: Api) -> None:
        """Nothing said means background."""
        await self._family(api)
        (await api.delete("configmaps", "owner")).ok()
        (await api.get("configmaps", "owner")).status(404, "NotFound")
        await api.gone("configmaps", "child")

    async def test_foreground(self, api: Api) -> None:
        """The owner stays, marked, until its blocking dependents are gone."""
        owner = (await api.create("configmaps", config_map("owner"))).ok()
        owner |= {"apiVersion": "v1", "kind": "ConfigMap"}
        child = owned(config_map("child"), owner, block=True)
        child["metadata"]["finalizers"] = ["example.com/hold"]
        (await api.create("configmaps", child)).ok()
        answer = await api.delete("configmaps", "owner", _options(propagationPolicy="Foreground"))
        assert "foregroundDeletion" in answer.ok()["metadata"]["finalizers"]
        assert answer.ok()["metadata"]["deletionTimestamp"]

        async def marked() -> bool:
            metadata = (await api.get("configmaps", "child")).ok()["metadata"]
            return "deletionTimestamp" in metadata

        await api.until(marked)
        assert (await api.get("configmaps", "owner")).code == 200
        (await api.patch("configmaps", "child", {"metadata": {"finalizers": None}})).ok()
        await api.gone("configmaps", "child")
        await api.gone("configmaps", "owner")

    async def test_orphan(self, api: Api) -> None:
        """The owner goes, its dependents stay without it."""
        await self._family(api)
        (await api.delete("configmaps", "owner", _options(propagationPolicy="Orphan"))).ok()
        await api.gone("configmaps", "owner")
        child = (await api.get("configmaps", "child")).ok()
        assert "ownerReferences" not in child["metadata"]
        assert (await api.get("secrets", "grandchild")).code == 200

    async def test_an_owner_that_never_was(self, api: Api) -> None:
        """A dependent whose owner does not exist is collected."""
        owner = (await api.create("configmaps", config_map("owner"))).ok()
        owner |= {"apiVersion": "v1", "kind": "ConfigMap"}
        (await api.delete("configmaps", "owner")).ok()
        (await api.create("configmaps", owned(config_map("child"), owner))).ok()
        await api.gone("configmaps", "child")

    async def test_the_same_name_is_not_the_same_owner(self, api: Api) -> None:
        """An owner is its uid: one born later under the same name keeps nobody alive."""
        owner = await self._family(api)
        child = owned(config_map("second"), owner)
        (await api.delete("configmaps", "owner")).ok()
        (await api.create("configmaps", config_map("owner"))).ok()
        (await api.create("configmaps", child)).ok()
        await api.gone("configmaps", "second")

    async def test_one_of_two_owners_is_enough(self, api: Api) -> None:
        """A dependent lives as long as one owner does; the dead one's reference is taken away."""
        first = (await api.create("configmaps", config_map("one"))).ok()
        second = (await api.create("configmaps", config_map("two"))).ok()
        for body in (first, second):
            body |= {"apiVersion": "v1", "kind": "ConfigMap"}
        child = owned(config_map("child"), first)
        other = owned(config_map("child"), second)["metadata"]["ownerReferences"]
        child["metadata"]["ownerReferences"] += other
        (await api.create("configmaps", child)).ok()
        (await api.delete("configmaps", "one")).ok()

        async def alone() -> bool:
            metadata = (await api.get("configmaps", "child")).ok()["metadata"]
            return [r["name"] for r in metadata["ownerReferences"]] == ["two"]

        await api.until(alone)

    async def test_bad_owner_references(self, api: Api) -> None:
        """An incomplete reference, or two controllers, is refused."""
        body = config_map("a")
        body["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap"}]
        fields = {field for field, _ in (await api.create("configmaps", body)).causes()}
        assert fields == {"metadata.ownerReferences.name", "metadata.ownerReferences.uid"}
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
        body["metadata"]["ownerReferences"] = [
            reference | {"name": "x", "uid": "u1"},
            reference | {"name": "y", "uid": "u2"},
        ]
        assert (await api.create("configmaps", body)).causes() == {
            ("metadata.ownerReferences", "FieldValueInvalid")
        }


class TestNamespaces:
    """Namespaces: made empty, deleted with all they hold."""

    async def test_a_new_namespace(self, api: Api) -> None:
        """It is Active, carries its name as a label and the finalizer kubernetes."""
        namespace = (await api.get("namespaces", api.namespace)).ok()
        assert namespace["status"] == {"phase": "Active"}
        assert namespace["spec"] == {"finalizers": ["kubernetes"]}
        labels = namespace["metadata"]["labels"]
        assert labels == {"kubernetes.io/metadata.name": api.namespace}

    @pytest.mark.slow
    async def test_deletion_takes_everything(self, api: Api) -> None:
        """Everything in it is deleted, then the namespace itself; made again it is empty."""
        (await api.create("configmaps", config_map("a"))).ok()
        (await api.create("pods", pod("p"))).ok()
        (await api.create("widgets", widget("w"))).ok()
        marked = (await api.delete("namespaces", api.namespace)).ok()
        assert marked["status"]["phase"] == "Terminating"
        assert marked["metadata"]["deletionTimestamp"]
        await api.gone("namespaces", api.namespace)
        (await api.create("namespaces", {"metadata": {"name": api.namespace}})).ok()
        for resource in ("configmaps", "pods", "widgets"):
            assert await api.names(resource) == []

    @pytest.mark.slow
    async def test_nothing_new_while_it_ends(self, api: Api) -> None:
        """A create in a terminating namespace is 403 with the cause NamespaceTerminating."""
        body = config_map("hold")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        (await api.create("configmaps", body)).ok()
        (await api.delete("namespaces", api.namespace)).ok()

        async def refused() -> bool:
            return (await api.create("configmaps", {"metadata": {"generateName": "x"}})).code == 403

        await api.until(refused)
        failure = (await api.create("configmaps", config_map("b"))).status(403, "Forbidden")
        causes = failure["details"]["causes"]
        assert [cause["reason"] for cause in causes] == ["NamespaceTerminating"]
        assert (await api.get("namespaces", api.namespace)).code == 200
        (await api.patch("configmaps", "hold", {"metadata": {"finalizers": None}})).ok()
        await api.gone("namespaces", api.namespace)

    async def test_the_default_namespace_stays(self, api: Api) -> None:
        """`default` cannot be deleted."""
        (await api.delete("namespaces", "default")).status(403, "Forbidden")

    @pytest.mark.parametrize("name", ["A", "a.b", "x" * 64])
    async def test_bad_names(self, api: Api, name: str) -> None:
        """A namespace is a DNS label."""
        answer = await api.create("namespaces", {"metadata": {"name": name}})
        assert ("metadata.name", "FieldValueInvalid") in answer.causes()


async def test_many_deleters_one_success(api: Api) -> None:
    """Of deleters that come at once each gets an answer, and the object goes once."""
    (await api.create("configmaps", config_map("a"))).ok()
    answers = await asyncio.gather(*(api.delete("configmaps", "a") for _ in range(6)))
    codes = sorted(answer.code for answer in answers)
    assert codes == [200, 404, 404, 404, 404, 404]
