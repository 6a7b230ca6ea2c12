import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.Cache;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;

/**
 * JSON events joined with a GlobalKTable; what is no JSON object goes to another topic. Arguments: brokers, state directory,
 * the table's topic, threads. Each line of the input is a pass, until an empty line: application id, topic of events,
 * output, dead letters.
 */
public final class EnrichWithGlobalTable {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The columns that are joined; the rows have others, which are not. */
    public record User(String plan, String region, int rps) {}

    /** `parsed` is null where the original is no JSON object. */
    private record Event(byte[] original, ObjectNode parsed) {}

    private static final ObjectReader EVENTS = JSON.readerFor(JsonNode.class);
    private static final ObjectReader USERS =
        JSON.readerFor(User.class).without(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
    private static final ObjectWriter WRITER = JSON.writer();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] pass = line.split(" ");
            KafkaStreams streams = new KafkaStreams(topology(arguments[2], pass), settings(arguments, pass[0]));
            CountDownLatch running = new CountDownLatch(1);
            streams.setStateListener((now, before) -> {
                if (now == KafkaStreams.State.RUNNING) {
                    running.countDown();
                }
            });
            streams.start();
            running.await();
            System.out.println("running");
            input.readLine();
            streams.close();
            streams.cleanUp();
            System.out.println("ended");
        }
    }

    private static Properties settings(String[] arguments, String application) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[3]);
        settings.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, Tuned.class);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 2000);
        settings.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, 10000);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.consumerPrefix("max.poll.records"), 10000);
        settings.put(StreamsConfig.consumerPrefix("fetch.min.bytes"), 100000);
        settings.put(StreamsConfig.producerPrefix("compression.type"), "lz4");
        settings.put(StreamsConfig.producerPrefix("linger.ms"), 20);
        settings.put(StreamsConfig.producerPrefix("batch.size"), 262144);
        return settings;
    }

    private static Topology topology(String table, String[] pass) {
        Serde<byte[]> bytes = Serdes.ByteArray();
        StreamsBuilder builder = new StreamsBuilder();
        var users = builder.globalTable(
            table,
            Consumed.with(Serdes.String(), bytes),
            Materialized.<String, byte[]>as(Stores.persistentKeyValueStore("table")));
        var events = builder.stream(pass[1], Consumed.with(bytes, bytes)).mapValues(EnrichWithGlobalTable::parsed);
        events.filter((key, event) -> event.parsed() == null)
            .mapValues(Event::original)
            .to(pass[3], Produced.with(bytes, bytes));
        events.filter((key, event) -> event.parsed() != null)
            .leftJoin(users, (key, event) -> event.parsed().path("key_0").textValue(), EnrichWithGlobalTable::joined)
            .to(pass[2], Produced.with(bytes, bytes));
        return builder.build();
    }

    private static Event parsed(byte[] value) {
        try {
            return new Event(value, EVENTS.readTree(value) instanceof ObjectNode node ? node : null);
        } catch (IOException | IllegalArgumentException error) {
            return new Event(value, null);
        }
    }

    private static byte[] joined(Event event, byte[] row) {
        try {
            User user = row == null ? null : USERS.readValue(row);
            return WRITER.writeValueAsBytes(event.parsed().putPOJO("user", user));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Room for the whole table in the cache, and filters, so that a look-up reads one block. */
    public static final class Tuned implements RocksDBConfigSetter {
        private static final Cache CACHE = new LRUCache(512L << 20);

        @Override
        public void setConfig(String store, Options options, Map<String, Object> settings) {
            BlockBasedTableConfig table = (BlockBasedTableConfig) options.tableFormatConfig();
            table.setBlockCache(CACHE);
            table.setFilterPolicy(new BloomFilter(10));
            options.setTableFormatConfig(table);
        }

        @Override
        public void close(String store, Options options) {}
    }
}
