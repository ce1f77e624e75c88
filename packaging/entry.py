"""Where the program built into one folder begins."""

from tui.start import run

if __name__ == "__main__":
    run()
