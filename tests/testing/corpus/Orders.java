// An application of the corpus with Kafka's own client: `java -cp 'lib/*' Orders.java BOOTSTRAP TOPIC ID HOW`.
// HOW is "right", or the name of a bug; see ../other_languages.py. Orders are lines of stdin.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Orders {
    private static final int ATTEMPTS_MAX = 20;

    private final String bootstrap;
    private final String topic;
    private final String transactionalId;
    private final String how;
    private KafkaProducer<String, String> producer;

    private Orders(String bootstrap, String topic, String transactionalId, String how) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.transactionalId = transactionalId;
        this.how = how;
    }

    public static void main(String[] arguments) throws Exception {
        var application = new Orders(arguments[0], arguments[1], arguments[2], arguments[3]);
        var orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).lines().toList();
        if (application.how.startsWith("plain")) {
            application.deliver(orders);
        } else {
            application.transact(orders);
        }
    }

    private void transact(List<String> orders) {
        producer = fresh(true);
        for (String order : orders) {
            for (int attempt = 0; !sent(order); attempt++) {
                if (attempt == ATTEMPTS_MAX) {
                    throw new IllegalStateException("its outcome stays unknown");
                }
            }
        }
        producer.close();
    }

    /** Whether the order is committed; if not, it is sent again. */
    private boolean sent(String order) {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, order));
        for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
            try {
                producer.commitTransaction();
                return true;
            } catch (TimeoutException unknown) {
                if (how.equals("timeout-is-failure")) {
                    producer.close(java.time.Duration.ZERO);
                    producer = fresh(true);
                    return false;
                }
            }
        }
        throw new IllegalStateException("its outcome stays unknown");
    }

    private void deliver(List<String> orders) throws Exception {
        producer = fresh(false);
        for (String order : orders) {
            for (int attempt = 0; !delivered(order); attempt++) {
                if (attempt == ATTEMPTS_MAX) {
                    throw new IllegalStateException("it is refused");
                }
            }
        }
        producer.close();
    }

    private boolean delivered(String order) throws Exception {
        var result = producer.send(new ProducerRecord<>(topic, order));
        if (how.equals("plain-no-result")) {
            producer.flush();
            return true;
        }
        try {
            result.get();
            return true;
        } catch (ExecutionException refused) {
            return false;
        }
    }

    private KafkaProducer<String, String> fresh(boolean isTransactional) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("max.block.ms", "1000");
        if (isTransactional) {
            properties.put("transactional.id", transactionalId);
        }
        var made = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        if (isTransactional) {
            for (int attempt = 0; ; attempt++) {
                try {
                    made.initTransactions();
                    break;
                } catch (TimeoutException later) {
                    if (attempt == ATTEMPTS_MAX) {
                        throw later;
                    }
                }
            }
        }
        return made;
    }
}
