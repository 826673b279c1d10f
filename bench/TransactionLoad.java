// The producers of Kafka's own client that load a cluster for `fencepost bench transactions`, a thread each.
// `java -cp JARS TransactionLoad.java`; transaction_java.py says which lines it reads and writes. It ends with its stdin.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public final class TransactionLoad {
    private record Load(String bootstrap, String topic, int producers, int messages, int messageBytes,
            int partitions, boolean aborts) {
    }

    private static final int CAUSES_MAX = 5;
    private final List<Writer> writers = new ArrayList<>();
    private ExecutorService threads;

    public static void main(String[] arguments) throws Exception {
        var load = new TransactionLoad();
        System.out.println("version\t" + AppInfoParser.getVersion());
        var lines = new LinkedBlockingQueue<String>();
        var reading = new Thread(() -> read(lines));
        reading.setDaemon(true);
        reading.start();
        while (true) {
            String line = lines.take();
            String answer;
            try {
                answer = load.execute(line.split("\t"));
            } catch (Exception error) {
                answer = "error\t" + explained(error).replaceAll("\\s+", " ");
            }
            System.out.println(answer);
        }
    }

    /** The error, and what it was caused by: "in an error state" says nothing of itself. */
    private static String explained(Throwable error) {
        var causes = new ArrayList<String>();
        for (var each = error; each != null && causes.size() < CAUSES_MAX; each = each.getCause()) {
            if (!(each instanceof ExecutionException)) {
                causes.add(each.toString());
            }
        }
        return String.join("; caused by ", causes);
    }

    /** At the end of stdin all ends at once, a load too: the process that wanted it is gone. */
    private static void read(BlockingQueue<String> lines) {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                lines.add(line);
            }
        } catch (IOException error) {
            System.err.println(error);
        }
        Runtime.getRuntime().halt(0);
    }

    private String execute(String[] words) throws Exception {
        switch (words[0]) {
            case "open" -> {
                open(new Load(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]),
                        Integer.parseInt(words[5]), Integer.parseInt(words[6]), Boolean.parseBoolean(words[7])));
                return "opened";
            }
            case "write" -> {
                long begin = System.nanoTime() + Long.parseLong(words[1]);
                return write(begin, begin + Long.parseLong(words[2]));
            }
            case "close" -> {
                close();
                return "closed";
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private void open(Load load) throws Exception {
        threads = Executors.newFixedThreadPool(load.producers());
        var opening = new ArrayList<Callable<Writer>>();
        for (int number = 0; number < load.producers(); number++) {
            int own = number;
            opening.add(() -> new Writer(load, own));
        }
        for (Future<Writer> each : threads.invokeAll(opening)) {
            writers.add(each.get());
        }
    }

    /** Per producer: its committed transactions / the latencies in the window; divided by tabs. */
    private String write(long begin, long end) throws Exception {
        var writing = new ArrayList<Callable<String>>();
        for (Writer each : writers) {
            writing.add(() -> each.write(begin, end));
        }
        var written = new StringBuilder("written");
        for (Future<String> each : threads.invokeAll(writing)) {
            written.append('\t').append(each.get());
        }
        return written.toString();
    }

    private void close() {
        threads.shutdownNow();
        for (Writer each : writers) {
            each.producer.close(Duration.ZERO);
        }
        writers.clear();
    }

    private static final class Writer {
        private final Load load;
        private final int number;
        private final KafkaProducer<byte[], byte[]> producer;

        /** With the library's defaults. */
        Writer(Load load, int number) {
            this.load = load;
            this.number = number;
            var properties = new Properties();
            properties.put("bootstrap.servers", load.bootstrap());
            properties.put("transactional.id", load.topic() + "-" + number);
            producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
            producer.initTransactions();
        }

        String write(long begin, long end) {
            var committed = new ArrayList<Long>();
            var latencies = new ArrayList<Long>();
            long transaction = 0;
            for (long now = System.nanoTime(); now - end < 0; transaction++) {
                var records = records(transaction);
                long sent = System.nanoTime();
                boolean isCommitted = commit(records);
                now = System.nanoTime();
                if (isCommitted) {
                    committed.add(transaction);
                    if (sent - begin >= 0 && now - end <= 0) {
                        latencies.add(now - sent);
                    }
                }
            }
            if (load.aborts()) {
                producer.beginTransaction();
                records(transaction).forEach(producer::send);
                producer.flush(); // else the library throws away what it has not sent, and the log never sees it
                producer.abortTransaction();
            }
            return joined(committed) + "/" + joined(latencies);
        }

        /** False: it was aborted. An outcome that is not known ends the load. */
        private boolean commit(List<ProducerRecord<byte[], byte[]>> records) {
            try {
                producer.beginTransaction();
                records.forEach(producer::send);
                // Else its sender, if held up between two steps, may send EndTxn before the records (docs/clients.md).
                producer.flush();
                producer.commitTransaction();
                return true;
            } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException
                    | TimeoutException error) {
                throw error;
            } catch (KafkaException error) {
                producer.abortTransaction();
                return false;
            }
        }

        /** As transaction_records.py has them. */
        private List<ProducerRecord<byte[], byte[]>> records(long transaction) {
            var records = new ArrayList<ProducerRecord<byte[], byte[]>>();
            for (int each = 0; each < load.messages(); each++) {
                var value = ByteBuffer.allocate(load.messageBytes());
                value.putInt(number).putLong(transaction).putInt(each);
                records.add(new ProducerRecord<>(load.topic(), number % load.partitions(), null, value.array()));
            }
            return records;
        }

        private static String joined(List<Long> numbers) {
            return numbers.stream().map(String::valueOf).collect(Collectors.joining(","));
        }
    }
}
