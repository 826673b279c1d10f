// A player of the suite for Kafka's own client: `java -cp 'lib/*' Player.java BOOTSTRAP`. Words: see ../players.py.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public final class Player {
    private static final int PARTITION = 0;
    private static final Duration QUIET = Duration.ofSeconds(3); // nothing came for so long: there is no more
    private static final Duration HASTE = Duration.ofMillis(500); // the application aborts within it
    private static final Duration CLOSE_MAX = Duration.ofSeconds(1);

    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();

    private Player(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        var player = new Player(arguments[0]);
        answer("ok", List.of(AppInfoParser.getVersion()));
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            var words = Arrays.asList(line.split("\t"));
            try {
                answer("ok", player.call(words.get(0), words.subList(1, words.size())));
            } catch (Exception error) {
                var cause = error instanceof ExecutionException ? error.getCause() : error;
                answer("error", List.of(cause.toString().replaceAll("\\s+", " ")));
            }
        }
        Runtime.getRuntime().halt(0); // producers that were left open are left so
    }

    private List<String> call(String verb, List<String> words) throws Exception {
        switch (verb) {
            case "make" -> make(words.get(0), words.subList(1, words.size()));
            case "begin" -> producers.get(words.get(0)).beginTransaction();
            case "send" -> send(producers.get(words.get(0)), words.get(1), words.subList(2, words.size()));
            case "hasty" -> sendHastily(producers.get(words.get(0)), words.get(1), words.get(2));
            case "commit" -> producers.get(words.get(0)).commitTransaction();
            case "abort" -> producers.get(words.get(0)).abortTransaction();
            case "close" -> producers.remove(words.get(0)).close(CLOSE_MAX);
            case "metric" -> {
                return List.of(metric(producers.get(words.get(0)), words.get(1)));
            }
            case "read" -> {
                return read(words.get(0), Integer.parseInt(words.get(1)), words.get(2));
            }
            default -> throw new IllegalArgumentException(verb);
        }
        return List.of();
    }

    private void make(String name, List<String> settings) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (String setting : settings) {
            var pair = setting.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        producers.put(name, producer);
    }

    private static void send(KafkaProducer<String, String> producer, String topic, List<String> values)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String value : values) {
            sent.add(producer.send(new ProducerRecord<>(topic, PARTITION, null, value)));
        }
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
    }

    private static String metric(KafkaProducer<String, String> producer, String name) {
        return producer.metrics().entrySet().stream()
                .filter(each -> each.getKey().name().equals(name))
                .filter(each -> each.getKey().group().equals("producer-metrics"))
                .map(each -> each.getValue().metricValue().toString())
                .findFirst().orElseThrow();
    }

    /** A failure is thrown while the library is still in the callback that tells it. */
    private static void sendHastily(KafkaProducer<String, String> producer, String topic, String value)
            throws Exception {
        var told = new LinkedBlockingQueue<Optional<Exception>>();
        producer.send(new ProducerRecord<>(topic, PARTITION, null, value), (sent, error) -> {
            told.add(Optional.ofNullable(error));
            if (error != null) {
                LockSupport.parkNanos(HASTE.toNanos());
            }
        });
        var error = told.take();
        if (error.isPresent()) {
            throw error.get();
        }
    }

    private List<String> read(String topic, int count, String isolation) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", isolation);
        var values = new ArrayList<String>();
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            var partitions = List.of(new TopicPartition(topic, PARTITION));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (values.size() < count) {
                var records = consumer.poll(QUIET);
                if (records.isEmpty()) {
                    break;
                }
                for (ConsumerRecord<String, String> each : records) {
                    values.add(each.value());
                }
            }
        }
        return values.subList(0, Math.min(count, values.size()));
    }

    private static void answer(String verdict, List<String> words) {
        var line = new ArrayList<>(List.of(verdict));
        line.addAll(words);
        System.out.println(String.join("\t", line));
        System.out.flush();
    }
}
