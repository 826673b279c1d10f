"""What is broken on purpose in the registry of API keys."""

from typing import Final

from tests.mutants.mutant import Mutant

PRIVATE: Final = "tests/wire/test_private_keys.py::"
TESTS: Final = "tests/wire/test_registry.py::"

REGISTRY: Final = (
    Mutant(
        "registry-skips-private-keys",
        "the registry has every API of wire/, private ones too",
        "wire/registry.py",
        'r"k(\\d{2,})_',
        'r"k(\\d{2})_',
        (TESTS + "test_every_api_of_every_module_of_wire_is_registered",),
    ),
    Mutant(
        "registry-any-count",
        "a module of wire/ has the one API that its name says",
        "wire/registry.py",
        "        if len(own) != 1 or key in found:\n",
        "        if not own or key in found:\n",
        (TESTS + "test_a_module_has_the_one_api_that_its_name_says[two-apis]",),
    ),
    Mutant(
        "serves-unregistered",
        "a listener serves registered APIs only",
        "wire/listener.py",
        "        require_registered(api for api, _ in self.apis.values())\n",
        "",
        (TESTS + "test_what_is_not_registered_is_not_served",),
    ),
    Mutant(
        "registry-key-without-name",
        "an API that takes another's key is not served",
        "wire/registry.py",
        "        if known is None or known.name != api.name:\n",
        "        if known is None:\n",
        (TESTS + "test_what_is_not_registered_is_not_served[a-key-of-another]",),
    ),
    Mutant(
        "registry-lacks-a-listener",
        "the registry says where a key is served",
        "wire/k60_describe_cluster.py",
        "    listeners=(BROKER, CONTROLLER),\n",
        "    listeners=(CONTROLLER,),\n",
        (
            "tests/node/test_served_keys.py::test_each_listener_serves_the_keys_that_are_registered_for_it",
            TESTS + "test_the_page_has_the_table_that_the_registry_makes",
        ),
    ),
    Mutant(
        "limit-off-the-page",
        "the page says the largest request of each key",
        "wire/k66_list_transactions.py",
        "    request_bytes_max=4 * SMALL,",
        "    request_bytes_max=8 * SMALL,",
        (TESTS + "test_the_page_has_the_table_that_the_registry_makes",),
    ),
    Mutant(
        "private-key-field-order",
        "the bytes of a private key are those that other versions read",
        "wire/k20024_announce_partitions.py",
        "    producer_epoch=INT16,\n    image_version=INT64,\n",
        "    image_version=INT64,\n    producer_epoch=INT16,\n",
        (
            PRIVATE + "test_bytes_are_what_they_have_always_been",
            PRIVATE + "test_the_page_lists_the_fields_of_the_codec",
        ),
    ),
    Mutant(
        "private-key-undocumented-member",
        "the page lists every member of a private key's documents",
        "wire/k20066_list_set_aside.py",
        "    code: int = 0\n",
        "    code: int = 0\n    tries: int = 0\n",
        (PRIVATE + "test_the_page_lists_the_fields_of_the_codec",),
    ),
    Mutant(
        "private-key-tail-unread",
        "a private message is read to its end",
        "wire/private_api.py",
        "    reader.finish()\n",
        "",
        (PRIVATE + "test_a_byte_too_many_or_too_few_is_corrupt",),
    ),
    Mutant(
        "private-document-unbounded",
        "a JSON document of a private key has a bound",
        "wire/private_api.py",
        "        if length != there or length > self.bytes_max:\n",
        "        if length != there:\n",
        ("tests/wire/test_private_documents.py::test_documents_have_a_bound[one-past]",),
    ),
)
