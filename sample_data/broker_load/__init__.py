"""Sample data of the broker load view: a Kafka cluster of six brokers in three racks."""
