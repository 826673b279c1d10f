"""What a folder of tables refuses."""


class TablesRefused(Exception):
    """The tables cannot be read or written: none there, of another version, or someone is at work in them."""
