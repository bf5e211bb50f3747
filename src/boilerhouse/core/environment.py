"""Environment variables that both ends of the REST API read."""

from __future__ import annotations

URL_VARIABLE = "BOILERHOUSE_URL"
KEY_VARIABLE = "BOILERHOUSE_API_KEY"
