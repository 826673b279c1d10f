"""Expiry: transactions that are open for too long are aborted, ids that nobody uses are forgotten.

Source   KIP-588; Kafka TransactionStateManager; spec/kafka.md B6; DESIGN 2 (time).
"""
