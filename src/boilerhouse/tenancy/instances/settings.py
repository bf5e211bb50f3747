"""What an installation decides about all its instances."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """`product_image` holds the agent; the embedded kubelet knows it by this name."""

    product_image: str = "boilerhouse"
