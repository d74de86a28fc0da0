"""``python -m octopipe_cli``: the same as ``octopipe``."""

from octopipe_cli.cli import main

if __name__ == "__main__":
    main()
