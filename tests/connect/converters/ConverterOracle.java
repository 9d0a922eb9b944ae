import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Answers of Kafka's own converters, one JSON line per case.
 *
 * A case has "class", "config" and either "bytes" (base64 or null; the answer is the data) or "data" (an envelope of
 * JsonConverter, or null; the answer is the bytes). "header": true uses the class as a converter of headers. Data with a
 * schema is answered as an envelope, schemaless data with a tag for each number. An exception is answered as "error".
 */
public class ConverterOracle {
    private static final ObjectMapper JSON = new ObjectMapper().configure(
            JsonWriteFeature.ESCAPE_NON_ASCII.mappedFeature(), true);
    private static final JsonConverter ENVELOPES = new JsonConverter();

    public static void main(String[] files) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        ENVELOPES.configure(Map.of("schemas.enable", "true", "replace.null.with.default", "false"), false);
        Map<String, Object> known = new HashMap<>();
        try (BufferedReader cases = Files.newBufferedReader(Path.of(files[0]));
                BufferedWriter answers = Files.newBufferedWriter(Path.of(files[1]))) {
            for (String line = cases.readLine(); line != null; line = cases.readLine()) {
                answers.write(JSON.writeValueAsString(answer(JSON.readTree(line), known)));
                answers.newLine();
            }
        }
    }

    private static ObjectNode answer(JsonNode given, Map<String, Object> known) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        String key = given.get("class").asText() + given.get("config") + given.get("header");
        Object converter = known.get(key);
        if (converter == null) {
            converter = configured(given);
            known.put(key, converter);
        }
        try {
            if (given.has("bytes")) {
                SchemaAndValue found = read(converter, given.get("bytes"));
                if (found == null) {
                    answer.putNull("value");
                } else if (found.schema() == null) {
                    answer.set("value", tagged(found.value()));
                } else {
                    byte[] envelope = ENVELOPES.fromConnectData("t", found.schema(), found.value());
                    answer.put("envelope", new String(envelope, StandardCharsets.UTF_8));
                }
            } else {
                byte[] written = write(converter, given.get("data"));
                answer.put("bytes", written == null ? null : Base64.getEncoder().encodeToString(written));
            }
        } catch (Exception error) {
            answer.put("error", error.toString());
        }
        return answer;
    }

    private static Object configured(JsonNode given) throws Exception {
        Object made = Class.forName(given.get("class").asText()).getDeclaredConstructor().newInstance();
        Map<String, Object> config = new HashMap<>();
        given.get("config").fields().forEachRemaining(one -> config.put(one.getKey(), one.getValue().asText()));
        if (given.path("header").asBoolean()) {
            config.put("converter.type", "header");
            ((HeaderConverter) made).configure(config);
        } else {
            ((Converter) made).configure(config, false);
        }
        return made;
    }

    private static SchemaAndValue read(Object converter, JsonNode bytes) throws Exception {
        byte[] data = bytes.isNull() ? null : Base64.getDecoder().decode(bytes.asText());
        if (converter instanceof Converter) {
            return ((Converter) converter).toConnectData("t", data);
        }
        return ((HeaderConverter) converter).toConnectHeader("t", "h", data);
    }

    private static byte[] write(Object converter, JsonNode data) throws Exception {
        byte[] envelope = data.isNull() ? null : data.asText().getBytes(StandardCharsets.UTF_8);
        SchemaAndValue given = ENVELOPES.toConnectData("t", envelope);
        if (converter instanceof Converter) {
            return ((Converter) converter).fromConnectData("t", given.schema(), given.value());
        }
        return ((HeaderConverter) converter).fromConnectHeader("t", "h", given.schema(), given.value());
    }

    private static JsonNode tagged(Object value) {
        if (value instanceof Map) {
            ObjectNode found = JSON.createObjectNode();
            ((Map<?, ?>) value).forEach((name, one) -> found.set(name.toString(), tagged(one)));
            return JSON.createObjectNode().set("object", found);
        }
        if (value instanceof List) {
            ArrayNode found = JSON.createArrayNode();
            ((List<?>) value).forEach(one -> found.add(tagged(one)));
            return found;
        }
        if (value instanceof Number) {
            String kind = value.getClass().getSimpleName();
            return JSON.createObjectNode().put(kind, value.toString());
        }
        return JSON.valueToTree(value);
    }
}
