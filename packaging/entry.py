"""Where the program built into one folder begins."""

from tui.__main__ import run

if __name__ == "__main__":
    run()
