// An application of the corpus with Kafka's own client: `java -cp 'lib/*' Copies.java BOOTSTRAP SOURCE SINK ID HOW`.
// HOW is "right", or the name of a bug; see other_languages.py. It copies SOURCE to its end, and the work of one
// record fails once.

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Copies {
    private static final int FAILS_AT = 2;
    private static boolean failed = false;

    public static void main(String[] arguments) {
        String bootstrap = arguments[0], sink = arguments[2], group = arguments[3], how = arguments[4];
        var source = new TopicPartition(arguments[1], 0);
        try (var consumer = consumer(bootstrap, group, how); var producer = producer(bootstrap, group)) {
            producer.initTransactions();
            consumer.assign(List.of(source));
            long end = consumer.endOffsets(List.of(source)).get(source);
            while (consumer.position(source) < end) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    if (!copied(record, sink, consumer, producer, how)) {
                        break;
                    }
                }
            }
        }
    }

    /** Whether the record is copied; if not, it is to be read again. */
    private static boolean copied(
            ConsumerRecord<String, String> record, String sink, KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer, String how) {
        var partition = new TopicPartition(record.topic(), record.partition());
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(sink, record.value()));
        if (record.offset() == FAILS_AT && !failed) {
            failed = true;
            producer.abortTransaction();
            if (how.equals("no-rewind")) {
                return true;
            }
            consumer.seek(partition, record.offset());
            return false;
        }
        var next = Map.of(partition, new OffsetAndMetadata(record.offset() + 1));
        producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
        producer.commitTransaction();
        return true;
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group, String how) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        if (!how.equals("default-isolation")) {
            properties.put("isolation.level", "read_committed");
        }
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String transactionalId) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", transactionalId);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }
}
