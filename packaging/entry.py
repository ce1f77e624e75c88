"""Entry point of the program built into one folder."""

from tui.start import run

if __name__ == "__main__":
    run()
