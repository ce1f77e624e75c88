"""Results of ``loadlens fleet`` (docs/fleet.md): the manifest, and the Parquet tables beside it."""
