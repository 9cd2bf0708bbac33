"""The command line: one file per verb. Data goes to stdout, everything else to stderr."""

from viewkeeper.cli.app import cli, main

__all__ = ["cli", "main"]
