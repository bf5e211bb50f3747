"""This machine as a Node: its object, room, disk, and the scheduler."""
