"""Which errors are the user's to mend, and the sentence for each."""

EXTRAS = {"matplotlib": "plot", "pandas": "tables", "pyarrow": "tables", "rich": "cli"}


class CommandError(Exception):
    """A subcommand cannot do what it was asked; the message is one sentence with the remedy."""


def sentence_for(error: Exception) -> str | None:
    """The sentence for an error that the user can mend, or None for a defect of ours."""
    from tggm.datasets import DatasetError
    from tggm.persistence import ModelFileError

    match error:
        case CommandError() | DatasetError() | ModelFileError():
            return str(error)
        case OSError(filename=str(path)):
            return f"{error.strerror}: {path}"
        case OSError():
            return str(error)
        case ModuleNotFoundError(name=str(module)) if module.partition(".")[0] in EXTRAS:
            package = module.partition(".")[0]
            return f"this command needs {package}; install it with: pip install 'tggm[{EXTRAS[package]}]'"
    # Errors of the command line itself. Typer has carried click inside since 0.20-odd and depended on it
    # before, so their class has no lasting address; their way of giving a message has.
    if hasattr(error, "format_message"):
        return f"{error.format_message()} See: tggm --help"
    return None
