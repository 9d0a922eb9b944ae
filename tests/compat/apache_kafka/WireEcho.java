import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/**
 * Decodes messages with Apache Kafka's own classes, and gives them back: encoded again, and as JSON.
 *
 * Reads lines of class, version and hexadecimal bytes, or "nothing" for a new message in which nothing is set. Answers
 * each with a line of hexadecimal bytes and JSON, or "error" and what went wrong.
 */
public final class WireEcho {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", 3);
            out.println(answer(Class.forName(parts[0]), Short.parseShort(parts[1]), parts[2]));
        }
        out.flush();
    }

    private static String answer(Class<?> type, short version, String content) throws Exception {
        try {
            Message message = (Message) (content.equals("nothing")
                ? type.getConstructor().newInstance()
                : decode(type, version, ByteBuffer.wrap(HexFormat.of().parseHex(content))));
            return HexFormat.of().formatHex(encode(message, version)) + " " + json(type, message, version);
        } catch (InvocationTargetException exception) {
            return "error " + exception.getCause();
        }
    }

    private static Object decode(Class<?> type, short version, ByteBuffer buffer) throws Exception {
        Object message = type.getConstructor(Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new InvocationTargetException(new IllegalStateException(buffer.remaining() + " bytes were left"));
        }
        return message;
    }

    private static byte[] encode(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer encoded = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(encoded), cache, version);
        return encoded.array();
    }

    private static String json(Class<?> type, Object message, short version) throws Exception {
        Method write = Class.forName(type.getName() + "JsonConverter").getMethod("write", type, short.class);
        return write.invoke(null, message, version).toString();
    }
}
