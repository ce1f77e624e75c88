"""From input tables to the rounds of a cluster: topology, readings of each sampling interval, capacities."""
