"""Small sample inputs of every view in native formats, made by us, and the feeder that makes them live."""
