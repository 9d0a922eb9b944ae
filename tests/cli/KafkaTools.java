import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's own command-line tools, many in one JVM, since it is the start of a JVM that costs.
 *
 * Reads lines of a class, its standard input and its arguments, separated by tabs, all but the class in base64. Answers
 * each with the exit code, standard output and standard error, the latter two in base64.
 */
public final class KafkaTools {
    private static final class Ended extends Error {
        final int code;

        Ended(int code) {
            this.code = code;
        }
    }

    private static Ended ended;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> {
            if (ended == null) {
                ended = new Ended(code);
                // A tool that catches what ends it may not add to what it has said.
                System.setOut(new PrintStream(PrintStream.nullOutputStream()));
                System.setErr(new PrintStream(PrintStream.nullOutputStream()));
            }
            throw ended;
        });
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            String[] given = Arrays.stream(parts).skip(2).map(KafkaTools::decoded).toArray(String[]::new);
            answers.println(run(parts[0], decoded(parts[1]), given));
            answers.flush();
        }
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }

    private static String run(String tool, String input, String[] arguments) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        ended = null;
        int code = 0;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException exception) {
            if (!(exception.getCause() instanceof Ended)) {
                exception.getCause().printStackTrace();
                code = 1;
            }
        }
        code = ended == null ? code : ended.code;
        Base64.Encoder encoder = Base64.getEncoder();
        return code + " " + encoder.encodeToString(out.toByteArray()) + " " + encoder.encodeToString(err.toByteArray());
    }
}
