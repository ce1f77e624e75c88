"""The shared table: filter, sort, columns, drawing."""
