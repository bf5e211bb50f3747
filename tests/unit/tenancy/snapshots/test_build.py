"""The helper's objects, as they are built."""

from __future__ import annotations

from boilerhouse.node.helper.layout import COMPONENT, SECRET
from boilerhouse.tenancy.snapshots.build import (
    HelperSettings,
    helper_pod,
    helper_secret,
    template_hash,
    volume_claim,
)


def test_the_volume_is_of_the_class_that_is_wanted() -> None:
    """Without one it is the cluster's default, which is said by saying nothing."""
    assert "storageClassName" not in volume_claim(HelperSettings())["spec"]
    wanted = volume_claim(HelperSettings(storage="5Gi", storage_class="fast"))["spec"]
    assert wanted["storageClassName"] == "fast"
    assert wanted["resources"] == {"requests": {"storage": "5Gi"}}


def test_the_token_is_in_a_secret_that_never_changes() -> None:
    """A new token is a new Secret, and with it a new Pod."""
    secret = helper_secret("t0ken")
    assert (secret["metadata"]["name"], secret["immutable"]) == (SECRET, True)
    assert secret["stringData"] == {"token": "t0ken"}
    settings = HelperSettings()
    assert template_hash(settings, "one") != template_hash(settings, "two")


def test_policies_know_the_helper_by_its_label() -> None:
    """The one Pod that may reach agents."""
    labels = helper_pod(HelperSettings(), "uid")["metadata"]["labels"]
    assert labels[COMPONENT] == "snapshot-helper"
