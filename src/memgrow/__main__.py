"""`python -m memgrow`: the command line."""

from memgrow.cli import main

if __name__ == "__main__":  # a process that this one starts reads the file, too
    main()
