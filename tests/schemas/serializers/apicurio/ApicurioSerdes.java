import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.apicurio.registry.resolver.ParsedSchema;
import io.apicurio.registry.resolver.ParsedSchemaImpl;
import io.apicurio.registry.resolver.SchemaLookupResult;
import io.apicurio.registry.resolver.SchemaParser;
import io.apicurio.registry.resolver.SchemaResolver;
import io.apicurio.registry.resolver.data.Record;
import io.apicurio.registry.resolver.strategy.ArtifactReference;
import io.apicurio.registry.resolver.strategy.ArtifactReferenceResolverStrategy;
import io.apicurio.registry.rest.client.RegistryClient;
import io.apicurio.registry.serde.AbstractKafkaDeserializer;
import io.apicurio.registry.serde.AbstractKafkaSerializer;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericContainer;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.io.JsonEncoder;

/**
 * Apicurio's serializers in Confluent's wire format, with the registry at the address that is the argument.
 *
 * Each line of the input is a task of five columns: type (AVRO or JSON), "write" or "read", topic, schema and data, the
 * last two in base64. The answer is a line in base64: the bytes that were written, or the value that was read, as JSON.
 */
public final class ApicurioSerdes {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] task = line.split("\t", -1);
            byte[] data = Base64.getDecoder().decode(task[4]);
            String schema = new String(Base64.getDecoder().decode(task[3]), StandardCharsets.UTF_8);
            Confluent<Object, Object> resolver = new Confluent<>(arguments[0], task[2] + "-value", task[0], schema);
            byte[] answer = task[1].equals("write")
                    ? written(task[0], task[2], schema, data, resolver)
                    : read(task[0], task[2], data, resolver);
            System.out.println(Base64.getEncoder().encodeToString(answer));
            System.out.flush();
        }
    }

    private static Map<String, Object> settings() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("apicurio.registry.as-confluent", true);
        settings.put("apicurio.registry.headers.enabled", false);
        settings.put("apicurio.registry.deserializer.value.return-class", JsonNode.class.getName());
        return settings;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static byte[] written(String type, String topic, String schema, byte[] json, Confluent resolver)
            throws Exception {
        AbstractKafkaSerializer serializer =
                type.equals("AVRO") ? new AvroKafkaSerializer(resolver) : new JsonSchemaKafkaSerializer(resolver);
        serializer.configure(settings(), false);
        Object value = MAPPER.readTree(json);
        if (type.equals("AVRO")) {
            Schema parsed = new Schema.Parser().parse(schema);
            String text = new String(json, StandardCharsets.UTF_8);
            value = new GenericDatumReader<>(parsed).read(null, DecoderFactory.get().jsonDecoder(parsed, text));
        }
        return serializer.serialize(topic, value);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static byte[] read(String type, String topic, byte[] data, Confluent resolver) throws Exception {
        AbstractKafkaDeserializer deserializer =
                type.equals("AVRO") ? new AvroKafkaDeserializer() : new JsonSchemaKafkaDeserializer();
        deserializer.setSchemaResolver(resolver);
        deserializer.configure(settings(), false);
        Object value = deserializer.deserialize(topic, data);
        if (!type.equals("AVRO")) {
            return MAPPER.writeValueAsBytes(value);
        }
        Schema schema = ((GenericContainer) value).getSchema();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        JsonEncoder encoder = EncoderFactory.get().jsonEncoder(schema, out);
        new GenericDatumWriter<>(schema).write(value, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    /** Finds schemas with Confluent's REST API. Apicurio's own resolver speaks the API of its own registry. */
    private static final class Confluent<S, T> implements SchemaResolver<S, T> {
        private final HttpClient http = HttpClient.newHttpClient();
        private final String url;
        private final String subject;
        private final String type;
        private final String schema;
        private SchemaParser<S, T> parser;

        Confluent(String url, String subject, String type, String schema) {
            this.url = url;
            this.subject = subject;
            this.type = type;
            this.schema = schema;
        }

        @Override
        public void configure(Map<String, ?> settings, SchemaParser<S, T> parser) {
            this.parser = parser;
        }

        @Override
        public SchemaLookupResult<S> resolveSchema(Record<T> record) {
            String body = MAPPER.createObjectNode().put("schema", schema).put("schemaType", type).toString();
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + "/subjects/" + subject + "/versions"))
                    .header("Content-Type", "application/vnd.schemaregistry.v1+json")
                    .POST(HttpRequest.BodyPublishers.ofString(body));
            return result(answer(request).get("id").asLong(), schema);
        }

        @Override
        public SchemaLookupResult<S> resolveSchemaByArtifactReference(ArtifactReference reference) {
            Long id = reference.getContentId() != null ? reference.getContentId() : reference.getGlobalId();
            return result(id, answer(HttpRequest.newBuilder(URI.create(url + "/schemas/ids/" + id))).get("schema").asText());
        }

        private SchemaLookupResult<S> result(long id, String text) {
            byte[] raw = text.getBytes(StandardCharsets.UTF_8);
            ParsedSchema<S> parsed =
                    new ParsedSchemaImpl<S>().setParsedSchema(parser.parseSchema(raw, Map.of())).setRawSchema(raw);
            return SchemaLookupResult.<S>builder().parsedSchema(parsed).contentId(id).globalId(id).build();
        }

        private JsonNode answer(HttpRequest.Builder request) {
            try {
                HttpResponse<String> response = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
                if (response.statusCode() != 200) {
                    throw new IllegalStateException(response.body());
                }
                return MAPPER.readTree(response.body());
            } catch (java.io.IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public SchemaParser<S, T> getSchemaParser() {
            return parser;
        }

        @Override
        public void setClient(RegistryClient client) {}

        @Override
        public void setArtifactResolverStrategy(ArtifactReferenceResolverStrategy<S, T> strategy) {}

        @Override
        public void reset() {}

        @Override
        public void close() {}
    }
}
