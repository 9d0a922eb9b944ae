import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Counts with Kafka Streams, exactly once: words of the values, or records by key and minute.
 * Prints RUNNING when records are processed. Ends when its standard input ends.
 */
public class StreamsCounts {
    public static void main(String[] arguments) throws Exception {
        String brokers = arguments[0], what = arguments[1], source = arguments[2], target = arguments[3];
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[4]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[5]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> records = builder.stream(source, Consumed.with(Serdes.String(), Serdes.String()));
        if (what.equals("words")) {
            records.flatMapValues(value -> Arrays.asList(value.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .to(target, Produced.with(Serdes.String(), Serdes.Long()));
        } else {
            records.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
                .count()
                .toStream()
                .map((window, count) -> KeyValue.pair(window.key() + "@" + window.window().start(), count))
                .to(target, Produced.with(Serdes.String(), Serdes.Long()));
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch running = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        streams.start();
        running.await();
        System.out.println("RUNNING");
        System.in.read();
        streams.close(Duration.ofSeconds(20));
    }
}
