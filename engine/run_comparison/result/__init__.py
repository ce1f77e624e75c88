"""Result tables, detail and texts of the run comparison view."""
