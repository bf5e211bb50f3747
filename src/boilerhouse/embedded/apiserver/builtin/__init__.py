"""The built-in kinds: Pods, Services, ConfigMaps and the others the embedded API knows by itself.

trees.json ─► trees.py (schemas, shapes, merge tables) ─┐
honoured.py (what is refused) ──────────────────────────┤
one file per noun (defaults, rules), columns ───────────┴─► kinds()

Facts about fields are data; what a server does with them is code, one small file per noun.
"""

from __future__ import annotations

from boilerhouse.embedded.apiserver.builtin.index import definitions, kinds
from boilerhouse.embedded.apiserver.builtin.service import allocate as allocate_cluster_ip

__all__ = ["allocate_cluster_ip", "definitions", "kinds"]
