"""The hash rings of dskit: token rings of Mimir, Loki and Tempo, shuffle shards, and partition rings. Exact, and nothing else."""
