"""How many bytes a request may have: each API names one of these sizes as its ``request_bytes_max``.

The limit is looked at as soon as the first six bytes of a request are here: its length and its API key.

A frame may have ``socket.request.max.bytes``, because Produce carries records; no other request comes near
that. What a request of a key can hold follows from the limits that its reader and its decision have anyway;
past it the connection is closed before the rest is stored or decoded.

Header      the client id (32 KiB at most) and 32 tagged fields count, too: no limit is below SMALL.
Elements    ELEMENTS_MAX array elements are read of one request. A topic costs an element, and 249 bytes of
            name at most; a transactional id 400. Lists that are longer than a decision takes are read as far
            as these sizes reach, and refused with their Kafka code.
"""

from typing import Final

from fencepost.wire.frame import KEYLESS_BYTES_MAX

SMALL: Final = KEYLESS_BYTES_MAX
"""A handful of numbers, ids and names. Frames of this size have memory reserved (wire/request_memory.py)."""
TOPIC_LISTS: Final = 4 * 1024 * 1024
"""10,000 topics of the longest names, with a partition and some numbers each."""
TOPIC_NAMES: Final = 6 * 1024 * 1024
"""ELEMENTS_MAX topics of the longest names, by name and id."""
TRANSACTION_LISTS: Final = 8 * 1024 * 1024
"""ELEMENTS_MAX transactional ids of the longest kind."""
GROUP_MEMBERS: Final = 4 * 1024 * 1024
"""What a group's members may have, assignments included (3 MiB), and their ids."""
