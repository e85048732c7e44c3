"""`python -m memgrow`: the command line."""

if __name__ == "__main__":  # a process that this one starts reads the file, too
    from memgrow.cli import main

    main()
