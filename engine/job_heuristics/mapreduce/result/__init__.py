"""Tables and detail of one MapReduce job."""
