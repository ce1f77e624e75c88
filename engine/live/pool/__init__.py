"""Worker processes that read files on all cores."""
