"""A cluster with Kafka's authorizer, and librdkafka under least privilege: each is taken away once."""

import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.harness.command import in_process
from tests.harness.guarded import TIMEOUT_S, acls, brokers, guarded_cluster, login
from tests.harness.nodes import CALM, Nodes, revive, wait_for
from tests.harness.shell_pages import shell_blocks, steps

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with guarded_cluster(tmp_path_factory.mktemp("acls"), *CALM) as started:
        yield started


@pytest.fixture
def nodes(guarded: Nodes) -> Nodes:
    return revive(guarded)


def change(nodes: Nodes, command: str, *privileges: str, user: str = "alice") -> None:
    """Each privilege is "OPERATION --topic NAME", or of another resource."""
    for each in privileges:
        operation, *resource = each.split()
        done = acls(nodes, command, "--allow-principal", f"User:{user}", "--operation", operation, *resource)
        assert done.status == 0, done


def topic(nodes: Nodes, name: str) -> str:
    config = nodes.directory.parent / "broker.properties"
    words = ("topics", "create", "--topic", name, "--bootstrap-server", brokers(nodes))
    assert in_process(*words, "--command-config", config).status == 0
    return name


def test_acls_are_added_listed_and_removed_by_who_may(nodes: Nodes) -> None:
    words = ("--allow-principal", "User:alice", "--operation", "Write", "--topic", "listed")
    for by in ("alice", "bob"):
        assert acls(nodes, "add", *words, by=by).status == 4
        assert acls(nodes, "list", by=by, to_brokers=True).status == 4
    assert acls(nodes, "add", *words, to_brokers=True).status == 0
    for to_brokers in (False, True):
        listed = acls(nodes, "list", "--topic", "listed", to_brokers=to_brokers).stdout
        assert listed == (
            "Current ACLs for resource "
            "`ResourcePattern(resourceType=TOPIC, name=listed, patternType=LITERAL)`:\n"
            "\t(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)\n\n"
        )
    assert "User:alice" in acls(nodes, "remove", *words).stdout
    assert acls(nodes, "list", "--topic", "listed").stdout == ""

    (page,) = shell_blocks("authorization.md")
    of_page = [shlex.split(line)[2:] for line, _ in steps(page)]
    for line in (*of_page, ["remove", *of_page[0][1:]]):
        assert acls(nodes, *line, "--format", "json").status == 0


def records_of(nodes: Nodes, name: str) -> int:
    """How many records can be read, committed or not."""

    def look() -> tuple[int, int] | None:
        """A consumer that saw the partition without a leader goes on saying that it is unknown."""
        reader = Consumer(login(nodes, "broker", group_id="reader", isolation_level="read_uncommitted"))
        try:
            found: tuple[int, int] = reader.get_watermark_offsets(TopicPartition(name, 0), timeout=TIMEOUT_S)
        except KafkaException:
            return None
        finally:
            reader.close()
        return found

    low, high = wait_for(f"the ends of {name} are known", look)
    return high - low


def produce(nodes: Nodes, name: str, user: str = "alice") -> int:
    """The code with which one record is answered; 0: it is written."""
    codes: list[int] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        codes.append(0 if error is None else error.code())

    producer = Producer(login(nodes, user, message_timeout_ms=5_000))
    producer.produce(name, b"v", on_delivery=delivered)
    producer.flush(TIMEOUT_S)
    return codes[0]


def test_a_producer_needs_write_on_its_topic(nodes: Nodes) -> None:
    name = topic(nodes, "written")
    assert produce(nodes, name) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    change(nodes, "add", f"Describe --topic {name}")
    assert produce(nodes, name) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert records_of(nodes, name) == 0
    change(nodes, "add", f"Write --topic {name}")
    assert produce(nodes, name) == 0
    assert produce(nodes, name, "bob") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    change(nodes, "remove", f"Write --topic {name}")
    assert produce(nodes, name) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert records_of(nodes, name) == 1


def test_unknown_topics_look_like_forbidden_ones_and_are_not_created(nodes: Nodes) -> None:
    assert produce(nodes, "never-made") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    metadata = AdminClient(login(nodes, "alice")).list_topics(timeout=TIMEOUT_S)
    assert "never-made" not in metadata.topics
    everything = AdminClient(login(nodes, "broker")).list_topics(timeout=TIMEOUT_S)
    assert "never-made" not in everything.topics


TRANSACTIONAL = ("Write --topic outputs", "Write --transactional-id transfers")


def transaction(nodes: Nodes) -> int:
    """The code with which it fails; 0: it is committed."""
    producer = Producer(login(nodes, "alice", transactional_id="transfers", transaction_timeout_ms=60_000))
    codes: list[int] = []
    try:
        producer.init_transactions(5)
        producer.begin_transaction()
        producer.produce(
            "outputs", b"v", on_delivery=lambda error, _message: codes.append(error.code() if error else 0)
        )
        producer.flush(TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
    except KafkaException as error:
        code: int = error.args[0].code()
        return next((each for each in codes if each), code)
    return 0


def test_a_transaction_needs_its_id_and_its_topics(nodes: Nodes) -> None:
    name = topic(nodes, "outputs")
    change(nodes, "add", *TRANSACTIONAL)
    assert transaction(nodes) == 0
    written = 2  # the record, and the marker, which may come after the commit's answer
    wait_for("the marker is written", lambda: records_of(nodes, name) == written)
    for privilege, code in zip(
        TRANSACTIONAL,
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        strict=True,
    ):
        change(nodes, "remove", privilege)
        assert transaction(nodes) == code
        assert records_of(nodes, name) == written, "nothing was written"
        change(nodes, "add", privilege)
    assert transaction(nodes) == 0


CONSUMING = ("Read --topic inputs", "Read --group readers")


def consume(nodes: Nodes) -> int:
    """The code of the first error; 0: a record came, and its offset is committed."""
    consumer = Consumer(
        login(nodes, "bob", group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False)
    )
    consumer.subscribe(["inputs"])

    def polled() -> int | None:
        message = consumer.poll(0.2)
        if message is None:
            return None
        error = message.error()
        return error.code() if error else 0

    try:
        code = wait_for("a record or an error", lambda: None if (found := polled()) is None else [found])[0]
        if code == 0:
            consumer.commit(asynchronous=False)
        return code
    finally:
        consumer.close()


def test_a_consumer_needs_its_topic_and_its_group(nodes: Nodes) -> None:
    topic(nodes, "inputs")
    assert produce(nodes, "inputs", "broker") == 0
    change(nodes, "add", *CONSUMING, user="bob")
    for privilege, code in zip(
        CONSUMING,
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED),
        strict=True,
    ):
        change(nodes, "remove", privilege, user="bob")
        assert consume(nodes) == code
        change(nodes, "add", privilege, user="bob")
    assert consume(nodes) == 0


def test_a_broker_that_was_stopped_serves_nothing_that_was_taken_away_meanwhile(nodes: Nodes) -> None:
    stopped = next(each for each in nodes.node_ids if each != nodes.await_followed())
    config = ("--command-config", nodes.directory.parent / "broker.properties")
    words = ("--topic", "stopped", "--replica-assignment", stopped, "--bootstrap-server", brokers(nodes))
    assert in_process("topics", "create", *words, *config).status == 0
    change(nodes, "add", "Write --topic stopped")
    codes: list[int] = []
    producer = Producer(login(nodes, "alice", message_timeout_ms=60_000))

    def send() -> None:
        producer.produce(
            "stopped", b"v", on_delivery=lambda error, _message: codes.append(error.code() if error else 0)
        )

    send()
    producer.flush(TIMEOUT_S)
    assert codes == [0]
    nodes.send(stopped, signal.SIGSTOP)
    try:
        send()
        producer.poll(1.0)  # it is in the socket of the broker that does not run
        change(nodes, "remove", "Write --topic stopped")  # answered, as the broker is fenced by now
    finally:
        nodes.send(stopped, signal.SIGCONT)
    producer.flush(TIMEOUT_S)
    assert codes == [0, KafkaError.TOPIC_AUTHORIZATION_FAILED]
    assert records_of(nodes, "stopped") == 1


def test_acls_survive_restarts_and_a_new_leader(nodes: Nodes) -> None:
    name = topic(nodes, "kept")
    change(nodes, "add", f"Write --topic {name}")
    nodes.kill(*nodes.node_ids)
    nodes.start(*nodes.node_ids)
    assert produce(nodes, name) == 0
    assert produce(nodes, name, "bob") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    change(nodes, "remove", f"Write --topic {name}")
    assert produce(nodes, name) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_file_is_imported_in_one_go_or_only_shown(nodes: Nodes, tmp_path: Path) -> None:
    file = tmp_path / "acls"
    file.write_text("User:carol DESCRIBE\nUser:carol TWO_PHASE_COMMIT\n")
    dry = acls(nodes, "import", file, "--dry-run")
    assert (dry.status, "DESCRIBE_CONFIGS" in dry.stdout, "closed to all" in dry.stderr) == (0, True, True)
    assert "User:carol" not in acls(nodes, "list").stdout
    assert acls(nodes, "import", file, "--dry-run", "--format", "json").stdout.count("User:carol") == 4
    assert acls(nodes, "import", file).status == 0
    assert acls(nodes, "list", "--format", "json").stdout.count("User:carol") == 4
    assert acls(nodes, "import", file, by="alice").status == 4
    file.write_text("User:carol WHATEVER\n")
    assert acls(nodes, "import", file).status == 3


def test_transactions_are_listed_by_what_may_be_described(nodes: Nodes) -> None:
    name = topic(nodes, "billed")
    producer = Producer(login(nodes, "broker", transactional_id="billing"))
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(name, b"one")
    producer.commit_transaction(TIMEOUT_S)

    def listed(by: str) -> bool:
        config = nodes.directory.parent / f"{by}.properties"
        words = ("transactions", "list", "--bootstrap-server", brokers(nodes), "--command-config", config)
        ended = in_process(*words)
        assert ended.status == 0, ended
        return "billing" in ended.stdout

    assert listed("broker")
    assert not listed("alice")
    change(nodes, "add", "Describe --transactional-id billing")
    assert listed("alice")
