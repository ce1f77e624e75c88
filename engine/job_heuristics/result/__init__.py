"""Result tables, detail and texts of the job heuristics view."""
