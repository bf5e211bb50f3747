"""Interfaces of Linux: system calls, cgroups, seccomp, trees."""
