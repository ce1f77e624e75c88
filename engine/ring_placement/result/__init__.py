"""Result tables, detail and texts of the ring placement view."""
