"""The `viewkeeper` command as a program."""

from viewkeeper.cli import main

if __name__ == "__main__":
    main()
