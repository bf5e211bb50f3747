"""Where the API begins. Handlers carry whole paths: nesting routers costs at every start."""

from __future__ import annotations

V1 = "/api/v1"
