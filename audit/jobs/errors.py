"""What a job refuses, with the reason."""


class AuditRefused(Exception):
    """It cannot be meant like that: a check that does not exist, a time that is none."""
