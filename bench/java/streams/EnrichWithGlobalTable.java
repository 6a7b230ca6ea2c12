import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * JSON events joined with a GlobalKTable; what is no JSON object goes to another topic. Arguments: those of `Passes`. A
 * pass's words: topic of events, dead letters, output.
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
        Passes.run(arguments, (builder, pass) -> join(builder, arguments[2], pass));
    }

    private static void join(StreamsBuilder builder, String table, String[] pass) {
        Serde<byte[]> bytes = Serdes.ByteArray();
        var users = Passes.table(builder, table);
        var events = builder.stream(pass[1], Consumed.with(bytes, bytes)).mapValues(EnrichWithGlobalTable::parsed);
        events.filter((key, event) -> event.parsed() == null)
            .mapValues(Event::original)
            .to(pass[2], Produced.with(bytes, bytes));
        events.filter((key, event) -> event.parsed() != null)
            .leftJoin(users, (key, event) -> event.parsed().path("key_0").textValue(), EnrichWithGlobalTable::joined)
            .to(pass[3], Produced.with(bytes, bytes));
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
}
