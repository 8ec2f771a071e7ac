"""The command line as `python -m coupledgp`."""

from coupledgp.cli import main

if __name__ == "__main__":
    main()
