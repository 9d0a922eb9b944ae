import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Kafka's own transforms on records from a file: one case per line in, one answer per line out.
 *
 * A case {"settings": class} is answered with the declared settings of that class. Other cases have
 * "class", "config", an optional "predicate" (class, config, negate) and "records". The answer is either
 * {"error": ...} for a refused configuration, or "results": for each record the new one, null if it was dropped, or
 * {"error": ...}. Values are tagged with their Java type, so that an integer of 8 bits is not one of 64.
 */
public final class TransformOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        try (BufferedReader cases = Files.newBufferedReader(Path.of(arguments[0]));
                BufferedWriter answers = Files.newBufferedWriter(Path.of(arguments[1]))) {
            for (String line = cases.readLine(); line != null; line = cases.readLine()) {
                answers.write(JSON.writeValueAsString(answer(JSON.readTree(line))));
                answers.newLine();
            }
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static ObjectNode answer(JsonNode one) {
        ObjectNode answer = JSON.createObjectNode();
        if (one.has("settings")) return settings(one.get("settings").asText(), answer);
        Transformation transform;
        Predicate predicate = null;
        try {
            transform = create(one);
            if (one.hasNonNull("predicate")) predicate = create(one.get("predicate"));
        } catch (Exception error) {
            return answer.put("error", error.toString());
        }
        ArrayNode results = answer.putArray("results");
        for (JsonNode given : one.get("records")) {
            try {
                ConnectRecord record = record(given);
                boolean chosen = predicate == null
                    || predicate.test(record) != one.get("predicate").path("negate").asBoolean();
                results.add(chosen ? encode(transform.apply(record)) : encode(record));
            } catch (Exception error) {
                results.addObject().put("error", error.toString());
            }
        }
        return answer;
    }

    private static ObjectNode settings(String name, ObjectNode answer) {
        try {
            Object plugin = Class.forName(name).getDeclaredConstructor().newInstance();
            ConfigDef declared = (ConfigDef) plugin.getClass().getMethod("config").invoke(plugin);
            for (ConfigDef.ConfigKey key : declared.configKeys().values()) {
                ArrayNode row = answer.putArray(key.name).add(key.type.name()).add(key.importance.name());
                row.add(key.hasDefault() ? String.valueOf(key.defaultValue) : "required");
            }
            return answer;
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException(error);
        }
    }

    @SuppressWarnings("unchecked")
    private static <T extends Configurable> T create(JsonNode described) throws Exception {
        T created = (T) Class.forName(described.get("class").asText()).getDeclaredConstructor().newInstance();
        Map<String, String> config = new HashMap<>();
        described.get("config").fields().forEachRemaining(e -> config.put(e.getKey(), e.getValue().asText()));
        created.configure(config);
        return created;
    }

    private static ConnectRecord<?> record(JsonNode given) {
        String topic = given.get("topic").asText();
        Integer partition = given.hasNonNull("partition") ? given.get("partition").asInt() : null;
        Long timestamp = given.hasNonNull("timestamp") ? given.get("timestamp").asLong() : null;
        Schema keySchema = schema(given.get("keySchema"));
        Schema valueSchema = schema(given.get("valueSchema"));
        Object key = value(given.get("key"), keySchema);
        Object value = value(given.get("value"), valueSchema);
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : given.get("headers")) {
            Schema headerSchema = schema(header.get("schema"));
            headers.add(header.get("name").asText(), value(header.get("value"), headerSchema), headerSchema);
        }
        if (given.hasNonNull("offset")) {
            return new SinkRecord(topic, partition == null ? 0 : partition, keySchema, key, valueSchema, value,
                given.get("offset").asLong(), timestamp, TimestampType.CREATE_TIME, headers);
        }
        return new SourceRecord(null, null, topic, partition, keySchema, key, valueSchema, value, timestamp, headers);
    }

    private static Schema schema(JsonNode given) {
        if (given == null || given.isNull()) return null;
        Schema.Type type = Schema.Type.valueOf(given.get("type").asText());
        SchemaBuilder builder;
        switch (type) {
            case ARRAY: builder = SchemaBuilder.array(schema(given.get("values"))); break;
            case MAP: builder = SchemaBuilder.map(schema(given.get("keys")), schema(given.get("values"))); break;
            default: builder = new SchemaBuilder(type);
        }
        if (given.hasNonNull("name")) builder.name(given.get("name").asText());
        if (given.hasNonNull("version")) builder.version(given.get("version").asInt());
        if (given.hasNonNull("doc")) builder.doc(given.get("doc").asText());
        given.path("parameters").fields().forEachRemaining(e -> builder.parameter(e.getKey(), e.getValue().asText()));
        for (JsonNode field : given.path("fields")) builder.field(field.get(0).asText(), schema(field.get(1)));
        if (given.path("optional").asBoolean()) builder.optional();
        if (given.hasNonNull("default")) builder.defaultValue(value(given.get("default"), builder));
        return builder.build();
    }

    private static Object value(JsonNode given, Schema schema) {
        if (given == null || given.isNull()) return null;
        JsonNode content = given.get(1);
        switch (given.get(0).asText()) {
            case "int8": return (byte) content.asInt();
            case "int16": return (short) content.asInt();
            case "int32": return content.asInt();
            case "int64": return content.asLong();
            case "float32": return Float.parseFloat(content.asText());
            case "float64": return Double.parseDouble(content.asText());
            case "boolean": return content.asBoolean();
            case "string": return content.asText();
            case "bytes": return Base64.getDecoder().decode(content.asText());
            case "time": return new Date(content.asLong());
            case "decimal": return new BigDecimal(new BigInteger(content.asText()), given.get(2).asInt());
            case "list": {
                List<Object> list = new ArrayList<>();
                for (JsonNode element : content) list.add(value(element, schema == null ? null : schema.valueSchema()));
                return list;
            }
            case "map": {
                Map<Object, Object> map = new LinkedHashMap<>();
                for (JsonNode entry : content) {
                    map.put(value(entry.get(0), schema == null ? null : schema.keySchema()),
                        value(entry.get(1), schema == null ? null : schema.valueSchema()));
                }
                return map;
            }
            case "struct": {
                Struct struct = new Struct(schema);
                for (JsonNode entry : content) {
                    Field field = schema.field(entry.get(0).asText());
                    Object part = value(entry.get(1), field.schema());
                    if (part != null) struct.put(field, part);
                }
                return struct;
            }
            default: throw new IllegalArgumentException(given.toString());
        }
    }

    private static JsonNode encode(ConnectRecord<?> record) {
        if (record == null) return null;
        ObjectNode out = JSON.createObjectNode();
        out.put("topic", record.topic());
        out.put("partition", record.kafkaPartition());
        out.put("timestamp", record.timestamp());
        out.set("keySchema", encode(record.keySchema()));
        out.set("key", encode(record.key()));
        out.set("valueSchema", encode(record.valueSchema()));
        out.set("value", encode(record.value()));
        ArrayNode headers = out.putArray("headers");
        for (Header header : record.headers()) {
            ObjectNode one = headers.addObject();
            one.put("name", header.key());
            one.set("schema", encode(header.schema()));
            one.set("value", encode(header.value()));
        }
        return out;
    }

    private static JsonNode encode(Schema schema) {
        if (schema == null) return JSON.nullNode();
        ObjectNode out = JSON.createObjectNode();
        out.put("type", schema.type().name());
        out.put("optional", schema.isOptional());
        out.set("default", encode(schema.defaultValue()));
        out.put("name", schema.name());
        out.put("version", schema.version());
        out.put("doc", schema.doc());
        ObjectNode parameters = out.putObject("parameters");
        if (schema.parameters() != null) schema.parameters().forEach(parameters::put);
        ArrayNode fields = out.putArray("fields");
        if (schema.type() == Schema.Type.STRUCT) {
            for (Field field : schema.fields()) fields.addArray().add(field.name()).add(encode(field.schema()));
        }
        out.set("keys", schema.type() == Schema.Type.MAP ? encode(schema.keySchema()) : JSON.nullNode());
        boolean nested = schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY;
        out.set("values", nested ? encode(schema.valueSchema()) : JSON.nullNode());
        return out;
    }

    private static JsonNode encode(Object value) {
        if (value == null) return JSON.nullNode();
        ArrayNode out = JSON.createArrayNode();
        if (value instanceof Byte) return out.add("int8").add(((Byte) value).intValue());
        if (value instanceof Short) return out.add("int16").add(((Short) value).intValue());
        if (value instanceof Integer) return out.add("int32").add((Integer) value);
        if (value instanceof Long) return out.add("int64").add((Long) value);
        if (value instanceof Float) return out.add("float32").add(value.toString());
        if (value instanceof Double) return out.add("float64").add(value.toString());
        if (value instanceof Boolean) return out.add("boolean").add((Boolean) value);
        if (value instanceof String) return out.add("string").add((String) value);
        if (value instanceof byte[]) return out.add("bytes").add(Base64.getEncoder().encodeToString((byte[]) value));
        if (value instanceof ByteBuffer) {
            return out.add("bytes").add(Base64.getEncoder().encodeToString(((ByteBuffer) value).array()));
        }
        if (value instanceof Date) return out.add("time").add(((Date) value).getTime());
        if (value instanceof BigDecimal) {
            BigDecimal decimal = (BigDecimal) value;
            return out.add("decimal").add(decimal.unscaledValue().toString()).add(decimal.scale());
        }
        if (value instanceof List) {
            ArrayNode list = out.add("list").addArray();
            for (Object element : (List<?>) value) list.add(encode(element));
            return out;
        }
        if (value instanceof Map) {
            ArrayNode entries = out.add("map").addArray();
            ((Map<?, ?>) value).forEach((key, part) -> entries.addArray().add(encode(key)).add(encode(part)));
            return out;
        }
        if (value instanceof Struct) {
            Struct struct = (Struct) value;
            ArrayNode entries = out.add("struct").addArray();
            for (Field field : struct.schema().fields()) {
                entries.addArray().add(field.name()).add(encode(struct.getWithoutDefault(field.name())));
            }
            return out;
        }
        throw new IllegalArgumentException(value.getClass().toString());
    }
}
