import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.function.BiConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.Cache;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;

/**
 * Runs a topology with a GlobalKTable, one pass after the other. Arguments: brokers, state directory, the table's topic,
 * threads. Each line of the input is a pass, until an empty line: application id, and words for the topology.
 */
final class Passes {
    private Passes() {}

    /** The topology is told the words of its pass. */
    static void run(String[] arguments, BiConsumer<StreamsBuilder, String[]> topology) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] pass = line.split(" ");
            StreamsBuilder builder = new StreamsBuilder();
            topology.accept(builder, pass);
            KafkaStreams streams = new KafkaStreams(builder.build(), settings(arguments, pass[0]));
            start(streams);
            input.readLine();
            streams.close();
            streams.cleanUp();
            System.out.println("ended");
        }
    }

    /** Says so once it runs. */
    static void start(KafkaStreams streams) throws InterruptedException {
        CountDownLatch running = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        streams.start();
        running.await();
        System.out.println("running");
    }

    static GlobalKTable<String, byte[]> table(StreamsBuilder builder, String topic) {
        return builder.globalTable(
            topic,
            Consumed.with(Serdes.String(), Serdes.ByteArray()),
            Materialized.<String, byte[]>as(Stores.persistentKeyValueStore("table")));
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
        boolean isQuick = Boolean.getBoolean("bench.quick");
        settings.put(StreamsConfig.consumerPrefix("fetch.min.bytes"), isQuick ? 1 : 100000);
        if (Boolean.getBoolean("bench.once")) {
            settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
            settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 20);
        }
        settings.put(StreamsConfig.producerPrefix("compression.type"), "lz4");
        settings.put(StreamsConfig.producerPrefix("linger.ms"), isQuick ? 5 : 20);
        settings.put(StreamsConfig.producerPrefix("batch.size"), 262144);
        return settings;
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
