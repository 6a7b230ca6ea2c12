import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.Stores;

/** A GlobalKTable over RocksDB with default settings: restores a topic, says so, and stays until its input ends. */
public final class RestoreGlobalTable {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "bench");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        StreamsBuilder builder = new StreamsBuilder();
        builder.globalTable(
            topic,
            Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()),
            Materialized.as(Stores.persistentKeyValueStore("table")));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Passes.start(streams);
        System.in.read();
        // Only now: counting reads all rows, which is no part of restoring them.
        long rows = 0;
        try (var all = streams
                .store(StoreQueryParameters.fromNameAndType("table", QueryableStoreTypes.<byte[], byte[]>keyValueStore()))
                .all()) {
            for (; all.hasNext(); all.next()) {
                rows++;
            }
        }
        System.out.println(rows);
        streams.close();
    }
}
