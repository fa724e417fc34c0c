"""`--distributed`: the processes that share a fit."""

import sys

from tggm.cli.errors import CommandError


def joined(
    distributed: bool, coordinator: str | None, processes: int | None, process_id: int | None, streams: bool
) -> bool:
    """Join the other processes if asked to; whether this is the one that writes.

    `streams` tells that data or model pass through a standard stream, which processes cannot share.
    """
    if not distributed:
        if (coordinator, processes, process_id) != (None, None, None):
            raise CommandError("--coordinator, --processes and --process-id belong to --distributed; add it.")
        return True
    if streams:
        raise CommandError("--distributed needs names of files, the same for all processes; - is none.")
    from tggm.distributed import initialize, is_first

    try:
        initialize(coordinator, processes, process_id)
    except ValueError as error:
        text = str(error)
        for name in ("coordinator", "processes", "process_id"):
            text = text.replace(f"`{name}`", "--" + name.replace("_", "-"))
        raise CommandError(text) from None
    return bool(is_first())


def leave_alone() -> None:
    """After an error: do not wait for the other processes, if there are any."""
    if "tggm.distributed" in sys.modules:
        sys.modules["tggm.distributed"].fail()
