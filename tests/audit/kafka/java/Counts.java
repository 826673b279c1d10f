// Kafka Streams, exactly once: `java -cp 'lib/*' Counts.java BOOTSTRAP INPUT OUTPUT STATE_DIR`, until standard input ends.
// Counts values: a repartition topic, whose records Streams deletes, and a changelog, which is compacted.

import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

public final class Counts {
    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "counts");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, "3");
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "300");
        properties.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, "2000");
        properties.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), "5000");
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        properties.put(StreamsConfig.topicPrefix("segment.ms"), "2000");
        properties.put(StreamsConfig.topicPrefix("min.cleanable.dirty.ratio"), "0.01");
        properties.put(StreamsConfig.topicPrefix("max.compaction.lag.ms"), "1500");
        var builder = new StreamsBuilder();
        var counts = Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long());
        builder.<String, String>stream(arguments[1])
            .filter((key, value) -> value != null)
            .selectKey((key, value) -> value)
            .groupByKey()
            .count(counts)
            .toStream()
            .to(arguments[2], Produced.with(Serdes.String(), Serdes.Long()));
        var streams = new KafkaStreams(builder.build(), properties);
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.start();
        while (System.in.read() >= 0) {
            // until it ends
        }
        streams.close(java.time.Duration.ofSeconds(10));
        Runtime.getRuntime().halt(0);
    }
}
