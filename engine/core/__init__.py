"""The contract that views are written against. Imports no other package of ``engine``."""
