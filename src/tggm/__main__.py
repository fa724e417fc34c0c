"""`python -m tggm` is the `tggm` command."""

# `signal` would import `enum` and more before Ctrl-C has a handler
import _signal as signal  # type: ignore[import-not-found]  # has no stubs


def main() -> None:
    """Run the command line; until it is imported, Ctrl-C ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tggm.cli import main as command
    from tggm.cli.files import interruption

    interruption.handle_signals()
    command()


if __name__ == "__main__":
    main()
