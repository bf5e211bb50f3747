"""ChangeNotifier: waiters of an object are woken by its changes, and by `notify`."""

from __future__ import annotations

import asyncio

from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.notifier import ChangeNotifier
from boilerhouse.platform.kube.resources import PODS, Key
from tests.unit.platform.kube.scripted import Scripted


async def test_who_waits_looks_again_when_told() -> None:
    """What is waited for may depend on more than the object itself."""
    notifier: ChangeNotifier[Pod] = ChangeNotifier(Informer(Client(Scripted(), "here"), PODS))
    key, seen = Key("here", "a"), False
    waiting = asyncio.create_task(notifier.wait_until(key, lambda: seen))
    await asyncio.sleep(0)
    notifier.notify(key)
    notifier.notify(Key("here", "nobody waits for"))
    await asyncio.sleep(0)
    assert not waiting.done()
    seen = True
    notifier.notify(key)
    await asyncio.wait_for(waiting, 1)
