import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.util.Locale;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;

/**
 * JSON events joined with a GlobalKTable and sent on the five routes of bench/routed.py: an event takes each whose
 * predicate holds. What is no such event goes to another topic. Arguments: those of `Passes`. A pass's words: topic of
 * events, dead letters, and the routes' topics in their order.
 */
public final class RouteWithGlobalTable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Set<String> NEAR = Set.of("eu-1", "eu-2", "eu-3", "eu-4");

    /** The fields that the routes need. As a record this is faster than a tree of all fields. */
    public record Play(long id, String key_0, String key_1) {}

    public record User(String plan, String region, int rps) {}

    public record Paid(long id, String user, String region) {}

    public record Team(long id, String plan, String region, String item) {}

    public record Free(long id, String user, String tariff) {}

    public record Near(long id, String plan, String region) {}

    public record Sampled(long id, String user, int rps) {}

    /** `play` is null where the original is no such event. */
    private record Event(byte[] original, Play play) {}

    private record Joined(Play play, User user) {}

    private static final ObjectReader PLAYS = reader(Play.class);
    private static final ObjectReader USERS = reader(User.class);
    private static final ObjectWriter WRITER = JSON.writer();
    private static final User NOBODY = new User(null, null, 0);

    public static void main(String[] arguments) throws Exception {
        Passes.run(arguments, (builder, pass) -> route(builder, arguments[2], pass));
    }

    private static void route(StreamsBuilder builder, String table, String[] pass) {
        Serde<byte[]> bytes = Serdes.ByteArray();
        var users = Passes.table(builder, table);
        var events = builder.stream(pass[1], Consumed.with(bytes, bytes)).mapValues(RouteWithGlobalTable::parsed);
        events.filter((key, event) -> event.play() == null)
            .mapValues(Event::original)
            .to(pass[2], Produced.with(bytes, bytes));
        var joined = events.filter((key, event) -> event.play() != null)
            .leftJoin(users, (key, event) -> event.play().key_0(), RouteWithGlobalTable::joined);
        to(pass[3], joined, each -> "pro".equals(each.user().plan()),
            each -> new Paid(each.play().id(), each.play().key_0(), each.user().region()));
        to(pass[4], joined, each -> "team".equals(each.user().plan()) && !"eu-0".equals(each.user().region()),
            each -> new Team(
                each.play().id(),
                each.user().plan().toUpperCase(Locale.ROOT),
                each.user().region(),
                each.play().key_1()));
        to(pass[5], joined, each -> "free".equals(each.user().plan()) && each.play().id() % 4 != 0,
            each -> new Free(
                each.play().id(), each.play().key_0(), each.user().plan() + "/" + each.user().region()));
        to(pass[6], joined, each -> each.user().region() != null && NEAR.contains(each.user().region()),
            each -> new Near(
                each.play().id(), each.user().plan() == null ? "none" : each.user().plan(), each.user().region()));
        to(pass[7], joined, each -> each.play().id() % 10 < 2,
            each -> new Sampled(each.play().id(), each.play().key_0(), each.user().rps() + 1));
    }

    private static void to(
            String topic,
            KStream<byte[], Joined> joined,
            Predicate<Joined> when,
            Function<Joined, Object> select) {
        Serde<byte[]> bytes = Serdes.ByteArray();
        joined.filter((key, each) -> when.test(each))
            .mapValues(each -> written(select.apply(each)))
            .to(topic, Produced.with(bytes, bytes));
    }

    private static Event parsed(byte[] value) {
        try {
            return new Event(value, PLAYS.readValue(value));
        } catch (IOException | IllegalArgumentException error) {
            return new Event(value, null);
        }
    }

    private static Joined joined(Event event, byte[] row) {
        try {
            return new Joined(event.play(), row == null ? NOBODY : USERS.readValue(row));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static byte[] written(Object value) {
        try {
            return WRITER.writeValueAsBytes(value);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static ObjectReader reader(Class<?> kind) {
        return JSON.readerFor(kind).without(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
    }
}
