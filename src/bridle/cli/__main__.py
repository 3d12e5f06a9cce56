"""`python -m bridle.cli`."""

from bridle.cli import main

if __name__ == "__main__":
    main(prog_name="bridle")
