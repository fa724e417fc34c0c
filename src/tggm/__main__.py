"""`python -m tggm` is the `tggm` command."""

from tggm.cli import main

if __name__ == "__main__":
    main()
