"""A program that commits one transaction at the cluster of its environment."""

PROGRAM = """
import os
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": os.environ["FENCEPOST_BOOTSTRAP"], "transactional.id": "app"})
producer.init_transactions(30)
producer.begin_transaction()
producer.produce("orders", b"order")
producer.commit_transaction(30)
print("committed")
"""
