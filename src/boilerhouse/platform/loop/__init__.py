"""The controller engine: a keyed queue, one worker per key, health and an orderly stop."""
