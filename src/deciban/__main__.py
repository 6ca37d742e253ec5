"""`python -m deciban` is the command line."""

from deciban.cli import main

if __name__ == "__main__":
    main()
