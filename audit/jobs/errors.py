"""What a job refuses, for whoever asked."""


class AuditRefused(Exception):
    """It cannot be meant like that: a check that does not exist, a time that is none."""
