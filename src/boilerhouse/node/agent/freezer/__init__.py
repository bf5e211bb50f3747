"""The tenant's processes: found, frozen, held and thawed."""
