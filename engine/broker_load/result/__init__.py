"""Result tables and texts of the broker load view."""
