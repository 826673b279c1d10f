"""What is broken on purpose where strangers come in: connections, memory, descriptors, logs, secrets."""

from typing import Final

from tests.mutants.acls import ACL_MUTANTS
from tests.mutants.certificates import CERTIFICATES
from tests.mutants.mutant import Mutant
from tests.mutants.overrides import OVERRIDES
from tests.mutants.scram_users import SCRAM_USER_MUTANTS
from tests.mutants.sessions import SESSIONS

ADMISSION: Final = "tests/wire/test_admission.py::"
MEMORY: Final = "tests/wire/test_request_memory.py::"
LISTENER: Final = "tests/wire/test_listener.py::"
LIMITED_LOG: Final = "tests/wire/test_limited_log.py::"
METRICS_PORT: Final = "tests/node/test_metrics_port.py::"
LINKS: Final = "tests/quorum/test_links.py::"
OPEN_FILES: Final = "tests/broker/log/test_open_files.py::"
PRODUCERS: Final = "tests/broker/log/test_many_producers.py::"
DESCRIPTORS: Final = "tests/broker/test_descriptors.py::"

CONFIG: Final = "tests/settings/test_config.py::"
ENDPOINTS: Final = "tests/controller/test_broker_endpoints.py::"

TLS: Final = "tests/wire/test_tls.py::"
SCRAM: Final = "tests/wire/test_scram.py::"

DOORS: Final = (
    *ACL_MUTANTS,
    *SCRAM_USER_MUTANTS,
    Mutant(
        "links-host-looked-up-once",
        "a voter's host name is looked up at each dial",
        "quorum/links.py",
        "*self.config.addresses[peer], self.config.tls)  # noqa: B023\n",
        "*self.__dict__.setdefault('at', {}).setdefault(peer, __import__('socket').getaddrinfo("
        "*self.config.addresses[peer])[0][4][:2]), self.config.tls)  # noqa: B023\n",
        ("tests/quorum/test_link_hosts.py::test_a_voter_that_moved_under_its_name_is_dialled_where_it_is",),
    ),
    *OVERRIDES,
    *SESSIONS,
    *CERTIFICATES,
    Mutant(
        "second-secret-not-believed",
        "a node believes who proves either of its secrets",
        "wire/secret_proof.py",
        "    return first or second\n",
        "    return first\n",
        (
            "tests/wire/test_k20037.py::test_a_secret_is_changed_by_rolling_restarts",
            "tests/quorum/test_link_secrets.py::test_nodes_meet_at_each_step_of_a_change_and_at_no_other",
        ),
    ),
    Mutant(
        "second-secret-is-proved",
        "a node proves its first secret",
        "wire/secret_proof.py",
        "    return found[0], found[1] if len(found) > 1 else None\n",
        "    return found[-1], found[0] if len(found) > 1 else None\n",
        ("tests/wire/test_k20037.py::test_the_file_of_a_secret",),
    ),
    Mutant(
        "scram-proof-not-compared",
        "a login by SCRAM needs a proof that fits",
        "wire/scram.py",
        "        if not hmac.compare_digest(stored, credential.stored_key):\n",
        "        if False:\n",
        (
            SCRAM + "test_a_wrong_proof_is_refused_without_saying_what_was_wrong",
            SCRAM + "test_a_broken_last_token_is_refused",
        ),
    ),
    Mutant(
        "scram-server-not-verified",
        "the client of SCRAM verifies that the server knows the user",
        "wire/scram.py",
        "        if not self._expected or not hmac.compare_digest(server_final, self._expected):\n",
        "        if False:\n",
        (SCRAM + "test_a_server_that_does_not_know_the_user_is_refused",),
    ),
    Mutant(
        "servers-certificate-not-verified",
        "a client verifies that an authority it trusts signed the server's certificate",
        "wire/tls.py",
        '    found["client"].check_hostname = settings.verifies_host\n',
        '    found["client"].check_hostname = False\n    found["client"].verify_mode = ssl.CERT_NONE\n',
        (
            TLS + "test_a_server_of_another_authority_is_refused",
            TLS + "test_a_server_with_a_wrong_certificate_is_refused_by_name",
        ),
    ),
    Mutant(
        "host-not-verified",
        "a client verifies that the server's certificate names the host that it dialled",
        "wire/tls.py",
        '    found["client"].check_hostname = settings.verifies_host\n',
        '    found["client"].check_hostname = False\n',
        (TLS + "test_a_server_with_a_wrong_certificate_is_refused_by_name",),
    ),
    Mutant(
        "clients-certificate-not-verified",
        "a server verifies the certificates of clients as ssl.client.auth says",
        "wire/tls.py",
        "                found[client_auth].verify_mode = verified\n",
        "                found[client_auth].verify_mode = ssl.CERT_NONE\n",
        (TLS + "test_who_a_client_is",),
    ),
    Mutant(
        "handshakes-unbounded",
        "the oldest of too many TLS handshakes makes room",
        "wire/tls_handshake.py",
        "        while len(self.under_way) > most:\n",
        "        while False:\n",
        (TLS + "test_the_oldest_of_too_many_handshakes_makes_room",),
    ),
    Mutant(
        "broken-key-replaces-a-sound-one",
        "the contexts stay when a changed file is broken",
        "wire/tls.py",
        "        except TlsError as error:\n",
        "        except TlsError as error:\n            self._contexts = {}\n",
        (TLS + "test_a_changed_file_counts_for_new_connections_and_a_broken_one_is_named",),
    ),
    Mutant(
        "insecure-listener-accepted",
        "a listener without authentication that others than this host reach is refused",
        "settings/listener_config.py",
        "    return is_safe or config.allow_insecure or is_loopback(listener.address)\n",
        "    return True\n",
        (CONFIG + "test_a_wrong_file_is_refused_with_the_reason",),
    ),
    Mutant(
        "one-address-on-every-listener",
        "a client is given the addresses of the listener that it came in by",
        "controller/brokers.py",
        "    if not listener_name or len(broker.endpoints) == 1:\n",
        "    if True:\n",
        (ENDPOINTS + "test_which_endpoint_a_listener_is_given",),
    ),
    Mutant(
        "large-frames-unbounded",
        "past the bound large frames are not read",
        "wire/request_memory.py",
        "        if part is Part.OF_A_LARGE_FRAME and self.large > self.large_bytes_max:\n",
        "        if False:\n",
        (
            MEMORY + "test_past_the_bound_a_large_frame_is_not_read_and_a_small_one_is_served",
            MEMORY + "test_those_that_bring_nothing_go_first_then_the_newest",
        ),
    ),
    Mutant(
        "small-frames-unbounded",
        "the reserve of small frames is bounded",
        "wire/request_memory.py",
        "        while self.small > self.small_bytes_max and self._parts:\n",
        "        while False:\n",
        (MEMORY + "test_at_the_end_of_the_small_reserve_the_oldest_part_goes",),
    ),
    Mutant(
        "uploads-deadlock",
        "uploads that fill the memory together come to an end",
        "wire/request_memory.py",
        "        if self._waiting and not self._freed:\n",
        "        if False:\n",
        (MEMORY + "test_those_that_bring_nothing_go_first_then_the_newest",),
    ),
    Mutant(
        "unread-replies-kept",
        "a client that reads nothing goes when the memory for replies is full",
        "wire/request_memory.py",
        "            if is_full and left >= share.seen_unread >= 0:\n",
        "            if False:\n",
        (MEMORY + "test_a_client_that_reads_nothing_goes_when_the_memory_for_replies_is_full",),
    ),
    Mutant(
        "parked-uncounted",
        "a request in process counts until its reply",
        "wire/server_connection.py",
        "        self._memory.park(size)\n",
        "",
        (MEMORY + "test_a_parked_request_counts_until_it_is_answered",),
    ),
    Mutant(
        "frame-copied",
        "a large frame is not copied once more",
        "wire/frame.py",
        "        if size < DETACHED_BYTES_MIN:\n",
        "        if True:\n",
        (MEMORY + "test_a_large_frame_is_given_out_without_a_second_copy",),
    ),
    Mutant(
        "read-kept",
        "an idle connection keeps nothing of what it was served",
        "wire/frame.py",
        "            if position:\n                self._trim()\n",
        "",
        (MEMORY + "test_an_idle_connection_keeps_nothing_of_what_it_was_served",),
    ),
    Mutant(
        "parked-makes-room",
        "a connection with a request in process makes no room",
        "wire/server_connection.py",
        "        return not (self._busy or self._context.proved)\n",
        "        return not self._context.proved\n",
        (
            ADMISSION + "test_a_parked_request_and_a_peer_keep_their_connection",
            ADMISSION + "test_a_parked_request_is_no_idleness",
        ),
    ),
    Mutant(
        "peer-makes-room",
        "a node of the cluster keeps its connection",
        "wire/server_connection.py",
        "        return not (self._busy or self._context.proved)\n",
        "        return not self._busy\n",
        (ADMISSION + "test_a_parked_request_and_a_peer_keep_their_connection",),
    ),
    Mutant(
        "newest-makes-room",
        "the connection that was idle for longest makes room",
        "wire/server_connection.py",
        "        self._became_active(self)\n        self._splitter.feed(data)\n",
        "        self._splitter.feed(data)\n",
        (ADMISSION + "test_the_longest_idle_connection_makes_room",),
    ),
    Mutant(
        "idle-for-ever",
        "an idle connection is closed",
        "wire/admission.py",
        "            if connection.active_sweep > idle_since_max:\n",
        "            if True:\n",
        (ADMISSION + "test_an_idle_connection_is_closed[past-it]",),
    ),
    Mutant(
        "pace-of-the-whole",
        "each ten seconds of a frame have their own pace",
        "wire/admission.py",
        "            if received - had < PACE_BYTES:\n",
        "            if received < PACE_BYTES:\n",
        (ADMISSION + "test_each_ten_seconds_of_a_frame_have_their_own_pace",),
    ),
    Mutant(
        "sockets-take-the-reserve",
        "sockets leave a reserve of descriptors",
        "wire/admission.py",
        "        if number >= self._sockets_end:\n",
        "        if False:\n",
        (ADMISSION + "test_a_socket_of_the_reserve_makes_the_longest_idle_go",),
    ),
    Mutant(
        "login-refused-at-once",
        "a failed login waits",
        "wire/server_connection.py",
        "failed_authentication_delay_ms) <= 0:\n",
        "failed_authentication_delay_ms) <= 1e9:\n",
        (ADMISSION + "test_a_failed_login_waits_for_its_answer_and_holds_nothing",),
    ),
    Mutant(
        "one-connection-has-every-turn",
        "other connections have their turn",
        "wire/server_connection.py",
        "                elif begun[0] > end_s:\n",
        "                elif False:\n",
        (LISTENER + "test_others_have_their_turn_between_many_requests_of_one_connection",),
    ),
    Mutant(
        "lines-without-number",
        "lines about what comes in are limited",
        "wire/limited_log.py",
        "        if current.lines < LINES_MAX:\n",
        "        if True:\n",
        (LIMITED_LOG + "test_the_first_lines_are_written_and_the_rest_counted[many]",),
    ),
    Mutant(
        "group-reads-secrets",
        "a secret is its owner's alone",
        "wire/setting_files.py",
        "    if mode & OTHERS:\n",
        "    if mode & stat.S_IRWXO:\n",
        (
            "tests/cli/test_secret_files.py::test_a_file_that_others_may_use_is_refused_with_what_to_do[the-users-416]",
        ),
    ),
    Mutant(
        "head-without-end",
        "the head of a scrape is bounded",
        "node/metrics_port.py",
        "        if len(self._head) > HEAD_BYTES_MAX:\n",
        "        if False:\n",
        (METRICS_PORT + "test_what_is_answered",),
    ),
    Mutant(
        "newest-stranger-goes",
        "at Raft's port the oldest stranger makes room",
        "quorum/links.py",
        "            oldest = next(iter(self.links.unknown))\n",
        "            oldest = self\n",
        (LINKS + "test_so_many_strangers_and_the_oldest_makes_room",),
    ),
    Mutant(
        "no-descriptor-is-offline",
        "a log that found no descriptor may be written again",
        "broker/log/partition_log.py",
        "            if position >= 0 or not is_exhausted(error):\n",
        "            if True:\n",
        (OPEN_FILES + "test_a_write_without_a_descriptor_is_not_done_and_may_be_tried_again[0]",),
    ),
    Mutant(
        "no-descriptor-ends-a-partition",
        "a partition stays online when there was no descriptor",
        "broker/partitions.py",
        "        if is_exhausted(error):\n            self._limited_log",
        "        if False:\n            self._limited_log",
        (DESCRIPTORS + "test_a_produce_and_a_fetch_are_refused_and_the_next_ones_served[24]",),
    ),
    Mutant(
        "written-without-an-index",
        "a batch is written only where it can be indexed",
        "broker/log/partition_log.py",
        "            active.make_ready()\n",
        "",
        (OPEN_FILES + "test_a_write_without_a_descriptor_is_not_done_and_may_be_tried_again[2]",),
    ),
    Mutant(
        "flush-fails-for-good",
        "a flush that found no descriptor may be tried again",
        "broker/log/durability.py",
        "                self._failed = not is_exhausted(error)",
        "                self._failed = True",
        (OPEN_FILES + "test_a_flush_without_a_descriptor_may_be_tried_again",),
    ),
    Mutant(
        "closes-under-a-reader",
        "a thread closes only what it opened",
        "broker/log/open_files.py",
        " if owner == own and each is not spared), None\n",
        " if each is not spared), None\n",
        (OPEN_FILES + "test_a_thread_closes_only_what_it_opened",),
    ),
    Mutant(
        "producers-unbounded",
        "a partition knows a bounded number of producers",
        "broker/log/producer_state.py",
        "        if self.table.pop(newest, None) is not None or len(self.table) < PRODUCERS_MAX:\n",
        "        if True:\n",
        (PRODUCERS + "test_the_one_that_wrote_longest_ago_is_forgotten",),
    ),
    Mutant(
        "open-transaction-forgotten",
        "a producer with an open transaction is not forgotten",
        "broker/log/producer_state.py",
        " in self.table.items() if state.transaction_first == NO_OFFSET)\n",
        " in self.table.items() if state)\n",
        (PRODUCERS + "test_one_with_an_open_transaction_is_never_forgotten",),
    ),
    Mutant(
        "replies-without-room",
        "a fetch adds nothing where no room for replies is left",
        "broker/fetch.py",
        "        at_least_one = room > 0\n",
        "        at_least_one = True\n",
        ("tests/broker/test_fetch.py::test_a_fetch_adds_no_records_to_too_many_unread_replies[no-room]",),
    ),
    Mutant(
        "names-take-all-room",
        "topics that are created by being asked for have a limit of their own",
        "coordinator/topic_server.py",
        ", partitions_max=AUTO_CREATED_PARTITIONS_MAX",
        "",
        ("tests/coordinator/test_topic_server.py::test_names_alone_do_not_take_all_room",),
    ),
    Mutant(
        "rotated-under-the-node",
        "after a rotation the node writes to the new file",
        "settings/log_file.py",
        "            os.dup2(descriptor, output)\n",
        "            pass\n",
        ("tests/cli/test_log_file.py::test_it_rotates_at_the_limit[at-the-limit]",),
    ),
)
