import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one JVM: a line of standard input is a class and its
 * arguments, separated by tabs; a line of standard output is its exit status, what it printed and what it
 * complained of, both in base64.
 */
public class Tools {
    private static ByteArrayOutputStream printed = new ByteArrayOutputStream();
    private static ByteArrayOutputStream complained = new ByteArrayOutputStream();
    private static Integer ended;

    /** A tool would have ended the JVM. Some catch what is thrown, and end it again: the first status counts. */
    private static final class Ended extends Error {
    }

    /** Scala's console keeps the stream that was there first, so it is one that stays. */
    private static PrintStream stream(boolean isOutput) {
        return new PrintStream(new OutputStream() {
            @Override
            public synchronized void write(int value) {
                (isOutput ? printed : complained).write(value);
            }
        }, true);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(stream(true));
        System.setErr(stream(false));
        Exit.setExitProcedure((status, message) -> {
            ended = ended == null ? status : ended;
            throw new Ended();
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            printed = new ByteArrayOutputStream();
            complained = new ByteArrayOutputStream();
            ended = null;
            int status = run(line.split("\t", -1));
            out.println(status + " " + text(printed) + " " + text(complained));
            out.flush();
        }
    }

    private static int run(String[] words) {
        try {
            Class.forName(words[0]).getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            return 0;
        } catch (Throwable thrown) {
            if (ended == null) {
                thrown.printStackTrace(System.err);
            }
            return ended == null ? 1 : ended;
        }
    }

    private static String text(ByteArrayOutputStream bytes) {
        return "." + Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
