"""Which errors are the user's to mend, and the sentence for each."""

EXTRAS = {"matplotlib", "pandas", "pyarrow", "rich"}


class CommandError(Exception):
    """A subcommand cannot do what it was asked; the message is one sentence with the remedy."""


def sentence_for(error: Exception) -> str | None:
    """The sentence for an error that the user can mend, or None for a defect of ours."""
    from tggm.files import ModelFileError
    from tggm.tables import TableError

    lost = type(error).__name__ == "ProcessError"  # by name: its module, and JAX, need not be loaded here
    match error:
        case RuntimeError() if lost:
            return str(error)
        case CommandError() | ModelFileError() | TableError():
            return str(error)
        case ValueError() if str(error).startswith(("`X`", "`y`")):  # rows that cannot be computed with
            return str(error)
        case OSError(filename=str(path)):
            return f"{error.strerror}: {path}"
        case OSError():
            return str(error)
        case ModuleNotFoundError(name=str(module)) if module.partition(".")[0] in EXTRAS:
            package = module.partition(".")[0]
            return f"this command needs {package}; install it with: pip install {package}"
    # Errors of the command line itself: newer typer carries click inside, older typer depends on it, so
    # their class has no lasting address; the method that gives the message has.
    if hasattr(error, "format_message"):
        where = getattr(getattr(error, "ctx", None), "command_path", "tggm")
        message = error.format_message().rstrip(".")
        return f"{message}{'' if message.endswith('?') else '.'} See: {where} --help"
    return None
