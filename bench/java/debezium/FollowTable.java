import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.JsonByteArray;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Follows a table's change log by Debezium's engine and writes its rows to a topic, as JSON without a schema. Arguments:
 * host, port, database, user, password, table, slot, brokers, topic, a file for offsets. Ends with its standard input.
 */
public final class FollowTable {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.setProperty("name", "peer");
        settings.setProperty("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
        settings.setProperty("database.hostname", arguments[0]);
        settings.setProperty("database.port", arguments[1]);
        settings.setProperty("database.dbname", arguments[2]);
        settings.setProperty("database.user", arguments[3]);
        settings.setProperty("database.password", arguments[4]);
        settings.setProperty("table.include.list", arguments[5]);
        settings.setProperty("slot.name", arguments[6]);
        settings.setProperty("publication.name", arguments[6]);
        settings.setProperty("publication.autocreate.mode", "filtered");
        settings.setProperty("plugin.name", "pgoutput");
        settings.setProperty("topic.prefix", "peer");
        settings.setProperty("snapshot.mode", "no_data");
        settings.setProperty("tombstones.on.delete", "true");
        settings.setProperty("max.batch.size", "8192");
        settings.setProperty("max.queue.size", "32768");
        settings.setProperty("poll.interval.ms", "10");
        settings.setProperty("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        settings.setProperty("offset.storage.file.filename", arguments[9]);
        settings.setProperty("converter.schemas.enable", "false");
        settings.setProperty("transforms", "unwrap");
        settings.setProperty("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState");

        Properties producing = new Properties();
        producing.setProperty("bootstrap.servers", arguments[7]);
        producing.setProperty("acks", "all");
        producing.setProperty("linger.ms", "5");
        producing.setProperty("batch.size", "262144");
        producing.setProperty("compression.type", "lz4");
        String topic = arguments[8];
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(producing, new ByteArraySerializer(), new ByteArraySerializer())) {
            DebeziumEngine<ChangeEvent<byte[], byte[]>> engine =
                    DebeziumEngine.create(JsonByteArray.class)
                            .using(settings)
                            .using((success, message, error) -> {
                                if (!success) {
                                    System.err.println(message + ": " + error);
                                }
                            })
                            .notifying((events, committer) -> {
                                for (ChangeEvent<byte[], byte[]> event : events) {
                                    producer.send(new ProducerRecord<>(topic, event.key(), event.value()));
                                }
                                producer.flush();
                                for (ChangeEvent<byte[], byte[]> event : events) {
                                    committer.markProcessed(event);
                                }
                                committer.markBatchFinished();
                            })
                            .build();
            ExecutorService thread = Executors.newSingleThreadExecutor();
            thread.execute(engine);
            while (System.in.read() != -1) {}
            engine.close();
            thread.shutdown();
        }
    }
}
