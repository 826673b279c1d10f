// One principal's work, with Kafka's own client: `java -cp 'lib/*' Privileged.java PROPERTIES`.
// Verbs: see ../least_privilege.py.

import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public final class Privileged {
    private static final Duration TIMEOUT = Duration.ofSeconds(15);
    private static final Duration CLOSE_MAX = Duration.ofSeconds(1);

    private final Properties door = new Properties();

    private Privileged(String file) throws Exception {
        try (var reader = new FileReader(file)) {
            door.load(reader);
        }
    }

    public static void main(String[] arguments) throws Exception {
        var principal = new Privileged(arguments[0]);
        System.out.println("ok\t" + AppInfoParser.getVersion());
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            var words = Arrays.asList(line.split("\t"));
            try {
                principal.call(words.get(0), words.subList(1, words.size()));
                System.out.println("ok");
            } catch (Exception error) {
                var cause = error instanceof ExecutionException ? error.getCause() : error;
                System.out.println("error\t" + cause.toString().replaceAll("\\s+", " "));
            }
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private void call(String verb, List<String> words) throws Exception {
        switch (verb) {
            case "produce" -> produce(words.get(0), words.get(1));
            case "transact" -> transact(words);
            case "consume" -> consume(words.get(0), words.get(1));
            default -> throw new IllegalArgumentException(verb);
        }
    }

    private Properties with(Map<String, String> settings) {
        var properties = new Properties();
        properties.putAll(door);
        properties.putAll(settings);
        return properties;
    }

    private KafkaProducer<String, String> producer(Map<String, String> settings) {
        var bounds = with(settings);
        bounds.put("max.block.ms", "20000"); // the first login takes seconds on a busy machine
        return new KafkaProducer<>(bounds, new StringSerializer(), new StringSerializer());
    }

    private void produce(String topic, String value) throws Exception {
        var producer = producer(Map.of("enable.idempotence", "true"));
        try {
            producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
        } finally {
            producer.close(CLOSE_MAX);
        }
    }

    private void transact(List<String> words) throws Exception {
        var producer = producer(Map.of("transactional.id", words.get(0)));
        try {
            producer.initTransactions();
            producer.beginTransaction();
            var offset = new OffsetAndMetadata(Long.parseLong(words.get(5)));
            var source = new TopicPartition(words.get(4), 0);
            producer.sendOffsetsToTransaction(Map.of(source, offset), new ConsumerGroupMetadata(words.get(3)));
            producer.send(new ProducerRecord<>(words.get(1), 0, null, words.get(2))).get();
            producer.commitTransaction();
        } catch (Exception error) {
            try {
                producer.abortTransaction();
            } catch (Exception ignored) {
                // it may not write with this id, or has begun nothing
            }
            throw error;
        } finally {
            producer.close(CLOSE_MAX);
        }
    }

    private void consume(String group, String topic) {
        var settings = with(Map.of("group.id", group, "auto.offset.reset", "earliest"));
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "1");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            if (consumer.poll(TIMEOUT).isEmpty()) {
                throw new TimeoutException("no record came");
            }
            consumer.commitSync();
        }
    }
}
