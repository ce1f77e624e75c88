"""The plan: which moves mend a cluster and let it survive the next loss, what they cost, and the files that carry them out."""
