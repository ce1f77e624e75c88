"""One module or package per view: its screen."""
