"""`python -m djgnn` is the command `djgnn`."""

from djgnn.cli import main

if __name__ == "__main__":
    main()
