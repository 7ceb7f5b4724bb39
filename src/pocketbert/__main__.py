"""`python -m pocketbert` is the same as `pocketbert`."""

from pocketbert.cli import main

if __name__ == "__main__":
    main()
