"""Devices, threads, random generators, and how work is executed."""
