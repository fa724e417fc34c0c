"""Bytes on a disk, below everything else: arrays and JSON in one checked file, files whole or not there."""
