"""What the audit refuses, for whoever asked."""


class AuditRefused(Exception):
    """It cannot be meant like that: a check that does not exist, a time that is none."""


class TablesRefused(Exception):
    """The tables cannot be read: none there, or of another version."""
