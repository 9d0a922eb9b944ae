// The tables that Kafka Streams has after a list of changes.
//
// Standard input: a line per change, "topic TAB key TAB value"; a value of "-" is a tombstone. The topic is a (value:
// "region,credit") or b (value: a name). Standard output: a line per row, "table TAB key TAB value".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

public class FinalTables {
    private static final Serde<String> TEXT = Serdes.String();

    private static <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> table(String name, Serde<V> serde) {
        return Materialized.<String, V, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(TEXT).withValueSerde(serde);
    }

    private static StreamsBuilder topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> a = builder.table("a", Consumed.with(TEXT, TEXT));
        KTable<String, String> b = builder.table("b", Consumed.with(TEXT, TEXT));
        a.join(b, (one, other) -> one + "|" + other, table("inner", TEXT));
        a.leftJoin(b, (one, other) -> one + "|" + other, table("left", TEXT));
        a.outerJoin(b, (one, other) -> one + "|" + other, table("outer", TEXT));
        KGroupedTable<String, Long> regions = a.groupBy(
            (key, value) -> KeyValue.pair(value.split(",")[0], Long.valueOf(value.split(",")[1])),
            Grouped.with(TEXT, Serdes.Long()));
        regions.count(table("count", Serdes.Long()));
        regions.aggregate(
            () -> 0L, (key, value, sum) -> sum + value, (key, value, sum) -> sum - value, table("sum", Serdes.Long()));
        return builder;
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "final-tables");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "127.0.0.1:1");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[0]);
        try (TopologyTestDriver driver = new TopologyTestDriver(topology().build(), settings)) {
            Map<String, TestInputTopic<String, String>> topics = Map.of(
                "a", driver.createInputTopic("a", new StringSerializer(), new StringSerializer()),
                "b", driver.createInputTopic("b", new StringSerializer(), new StringSerializer()));
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] change = line.split("\t", -1);
                topics.get(change[0]).pipeInput(change[1], change[2].equals("-") ? null : change[2]);
            }
            for (String name : new String[] {"inner", "left", "outer", "count", "sum"}) {
                driver.getKeyValueStore(name).all().forEachRemaining(
                    row -> System.out.println(name + "\t" + row.key + "\t" + row.value));
            }
        }
    }
}
