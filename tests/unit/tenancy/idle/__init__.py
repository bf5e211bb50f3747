"""Tests of the idle verdict."""
