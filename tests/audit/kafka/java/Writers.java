// Kafka's own clients at work until standard input ends: `java -cp 'lib/*' Writers.java BOOTSTRAP SEED PROTOCOL TOPIC..`
// PROTOCOL is the group's: classic or consumer. The first TOPIC is read by the group; each has three partitions.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.ThreadLocalRandom;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Writers {
    private static final int PARTITIONS = 3;
    private static final int PRODUCERS = 2;
    private static final int ABORT_EVERY = 4;
    private static final int ODD_EVERY = 30; // a transaction that times out, or is fenced
    private static final int TIMEOUT_MS = 2500;
    private static final long PAUSE_MS = 60;
    private static final Duration CLOSE_MAX = Duration.ofMillis(500);

    private static volatile boolean isOver = false;
    private static String bootstrap;
    private static long seed;
    private static List<String> topics;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        seed = Long.parseLong(arguments[1]);
        topics = List.of(arguments).subList(3, arguments.length);
        var threads = new ArrayList<Thread>();
        for (int number = 0; number < PRODUCERS; number++) {
            int mine = number;
            threads.add(new Thread(() -> transact(mine)));
        }
        threads.add(new Thread(() -> copy(arguments[2])));
        threads.add(new Thread(Writers::writeIdempotently));
        threads.forEach(Thread::start);
        while (System.in.read() >= 0) {
            // until it ends
        }
        isOver = true;
        for (Thread each : threads) {
            each.join(20_000);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void transact(int number) {
        var random = new Random(seed * 100 + number);
        String id = "java-" + number;
        KafkaProducer<String, String> producer = null;
        for (int turn = 0; !isOver; turn++) {
            try {
                if (producer == null) {
                    producer = made(id);
                }
                producer.beginTransaction();
                send(producer, random, turn);
                if (random.nextInt(ODD_EVERY) == 0) {
                    var first = producer;
                    if (random.nextBoolean()) {
                        Thread.sleep(TIMEOUT_MS + 1500);
                    } else {
                        producer = made(id); // fences the first
                    }
                    end(first, false);
                } else {
                    end(producer, random.nextInt(ABORT_EVERY) > 0);
                }
                Thread.sleep(random.nextInt(2 * (int) PAUSE_MS));
            } catch (Exception error) {
                System.err.println(id + ": " + error);
                producer = closed(producer);
            }
        }
    }

    /** What the group's topic says, once more in another, with the offsets, in transactions. */
    private static void copy(String protocol) {
        var properties = settings();
        properties.put("group.id", "java-copier");
        properties.put("group.protocol", protocol);
        properties.put("isolation.level", "read_committed");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "10");
        KafkaProducer<String, String> producer = null;
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topics.get(0)));
            for (int turn = 0; !isOver; turn++) {
                try {
                    if (producer == null) {
                        producer = made("java-copier");
                    }
                    var records = consumer.poll(Duration.ofMillis(300));
                    if (records.isEmpty()) {
                        continue;
                    }
                    producer.beginTransaction();
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    Map<TopicPartition, Long> first = new HashMap<>();
                    for (ConsumerRecord<String, String> each : records) {
                        var partition = new TopicPartition(each.topic(), each.partition());
                        producer.send(new ProducerRecord<>(topics.get(1), each.partition(), each.key(), each.value()));
                        offsets.put(partition, new OffsetAndMetadata(each.offset() + 1));
                        first.putIfAbsent(partition, each.offset());
                    }
                    producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                    boolean commits = turn % 5 != 4;
                    end(producer, commits);
                    if (!commits) {
                        first.forEach(consumer::seek);
                    }
                    Thread.sleep(2 * PAUSE_MS);
                } catch (Exception error) {
                    System.err.println("java-copier: " + error);
                    producer = closed(producer);
                    consumer.assignment().forEach(each -> {
                        var committed = consumer.committed(java.util.Set.of(each)).get(each);
                        consumer.seek(each, committed == null ? 0 : committed.offset());
                    });
                }
            }
        } catch (Exception error) {
            System.err.println("java-copier ended: " + error);
        }
    }

    private static void writeIdempotently() {
        var random = new Random(seed * 100 + 99);
        while (!isOver) {
            try (var producer = new KafkaProducer<>(settings(), new StringSerializer(), new StringSerializer())) {
                for (int turn = 0; turn < 200 && !isOver; turn++) {
                    send(producer, random, turn);
                    producer.flush();
                    Thread.sleep(4 * PAUSE_MS);
                }
            } catch (Exception error) {
                System.err.println("java-idempotent: " + error);
            }
        }
    }

    private static void send(KafkaProducer<String, String> producer, Random random, int turn) {
        for (int left = 1 + random.nextInt(4); left > 0; left--) {
            String topic = topics.get(random.nextInt(topics.size()));
            String value = random.nextInt(8) == 0 && topic.startsWith("compacted") ? null : "java " + turn;
            String key = "key " + random.nextInt(12);
            producer.send(new ProducerRecord<>(topic, random.nextInt(PARTITIONS), key, value));
        }
    }

    private static void end(KafkaProducer<String, String> producer, boolean commits) {
        producer.flush();
        if (commits) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    private static KafkaProducer<String, String> made(String id) {
        var properties = settings();
        properties.put("transactional.id", id);
        properties.put("transaction.timeout.ms", String.valueOf(TIMEOUT_MS));
        properties.put("compression.type", ThreadLocalRandom.current().nextBoolean() ? "none" : "lz4");
        var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static KafkaProducer<String, String> closed(KafkaProducer<String, String> producer) {
        if (producer != null) {
            producer.close(CLOSE_MAX);
        }
        return null;
    }

    private static Properties settings() {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("linger.ms", "5");
        properties.put("max.block.ms", "10000");
        properties.put("request.timeout.ms", "2000");
        properties.put("delivery.timeout.ms", "8000");
        return properties;
    }
}
