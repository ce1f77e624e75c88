"""The live path: what is there, what changed, what was read; ignorant of any view."""
