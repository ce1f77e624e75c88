"""Reading files: bytes, decompression, recognition, following growth."""
