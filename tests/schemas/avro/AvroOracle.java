import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/**
 * Apache Avro's judgement of schemas. Each line of the input is a JSON object {"reader": TEXT, "writer": TEXT,
 * "references": [TEXT, ...]}; each line of the output says how Apache Avro parses and prints both, and what keeps data of
 * the writer from being read with the reader.
 */
public final class AvroOracle {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(JSON.writeValueAsString(judged(JSON.readTree(line))));
    }
    out.flush();
  }

  private static ObjectNode judged(JsonNode question) {
    ObjectNode answer = JSON.createObjectNode();
    Schema reader = parsed(question, "reader", answer);
    Schema writer = question.has("writer") ? parsed(question, "writer", answer) : null;
    if (reader != null && writer != null) {
      compare(reader, writer, answer);
    }
    return answer;
  }

  @SuppressWarnings("deprecation")
  private static Schema parsed(JsonNode question, String role, ObjectNode answer) {
    ObjectNode description = answer.putObject(role);
    try {
      Schema.Parser parser = new Schema.Parser();
      List<Schema> references = new ArrayList<>();
      for (JsonNode text : question.path("references")) {
        references.add(parser.parse(text.textValue()));
      }
      Schema schema = parser.parse(question.get(role).textValue());
      description.put("text", schema.toString(references, false));
      description.put("resolved", schema.toString());
      JsonNode same = question.get("same_as_" + role);
      if (same != null) {
        Schema.Parser again = new Schema.Parser();
        for (JsonNode text : question.path("references")) {
          again.parse(text.textValue());
        }
        description.put("same", schema.equals(again.parse(same.textValue())));
      }
      return schema;
    } catch (RuntimeException error) {
      description.put("error", String.valueOf(error.getMessage()));
      return null;
    }
  }

  private static void compare(Schema reader, Schema writer, ObjectNode answer) {
    ArrayNode found = answer.putArray("incompatibilities");
    try {
      SchemaCompatibility.checkReaderWriterCompatibility(reader, writer)
          .getResult()
          .getIncompatibilities()
          .forEach(one -> found.addArray().add(one.getType().name()).add(one.getLocation()));
    } catch (RuntimeException error) {
      answer.put("exception", String.valueOf(error.getMessage()));
    }
  }
}
