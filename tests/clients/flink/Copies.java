import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** BOOTSTRAP FOLDER NAMING SOURCE TARGET: copies a topic into another one exactly once, from the newest checkpoint on. */
class Copies {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        Path checkpoints = Path.of(arguments[1]);
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "500ms");
        settings.setString("execution.checkpointing.dir", checkpoints.toUri().toString());
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("execution.checkpointing.num-retained", "3");
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "1000");
        settings.setString("restart-strategy.fixed-delay.delay", "500ms");
        newest(checkpoints).ifPresent(each -> {
            System.out.println("from " + each);
            settings.setString("execution.state-recovery.path", each.toUri().toString());
        });
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        environment.setParallelism(2);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(bootstrap)
            .setTopics(arguments[3])
            .setGroupId("flink")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(bootstrap)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("flink-" + arguments[2])
            .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(arguments[2]))
            .setProperty("transaction.timeout.ms", "60000")
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic(arguments[4])
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "in").sinkTo(sink);
        environment.execute("copies");
    }

    /** A checkpoint is complete when its metadata is there. */
    private static Optional<Path> newest(Path checkpoints) throws Exception {
        try (var found = Files.walk(checkpoints)) {
            return found
                .filter(each -> each.endsWith("_metadata"))
                .max(Comparator.comparingLong(each -> each.toFile().lastModified()))
                .map(Path::getParent);
        }
    }
}
