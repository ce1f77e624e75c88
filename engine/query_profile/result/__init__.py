"""Result tables, detail and texts of the query profile view."""
