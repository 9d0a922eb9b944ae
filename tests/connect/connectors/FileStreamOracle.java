import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.lang.reflect.Proxy;
import org.apache.kafka.connect.file.FileStreamSourceTask;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** Kafka's own FileStreamSourceTask over one file: prints source partition, position and line of each record. */
public final class FileStreamOracle {
    /** Arguments: a file, then positions to begin at; -1 is a file without a stored offset. */
    public static void main(String[] arguments) throws Exception {
        for (int run = 1; run < arguments.length; run++) {
            long begin = Long.parseLong(arguments[run]);
            FileStreamSourceTask task = new FileStreamSourceTask();
            task.initialize(context(begin));
            Map<String, String> settings = new HashMap<>();
            settings.put("file", arguments[0]);
            settings.put("topic", "t");
            settings.put("batch.size", "100000");
            task.start(settings);
            List<SourceRecord> records = task.poll();
            while (records != null) {
                for (SourceRecord record : records) {
                    byte[] line = ((String) record.value()).getBytes(StandardCharsets.UTF_8);
                    System.out.println(begin + " " + record.sourcePartition() + " " + record.sourceOffset().get("position")
                            + " " + Base64.getEncoder().encodeToString(line) + ".");
                }
                records = task.poll();
            }
            task.stop();
        }
    }

    private static SourceTaskContext context(long begin) {
        OffsetStorageReader reader = new OffsetStorageReader() {
            @Override
            public <T> Map<String, Object> offset(Map<String, T> partition) {
                return begin < 0 ? null : Map.of("position", begin);
            }

            @Override
            public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
                throw new UnsupportedOperationException();
            }
        };
        return (SourceTaskContext) Proxy.newProxyInstance(FileStreamOracle.class.getClassLoader(),
                new Class<?>[] {SourceTaskContext.class},
                (proxy, method, values) -> method.getName().equals("offsetStorageReader") ? reader : null);
    }
}
