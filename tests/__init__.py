import engine  # noqa: F401  before NumPy: see there
