// Drives a Connect worker with Kafka Connect's own REST entities, as its RestClient reads them: an unknown field is an
// error. Each answer is read into its entity, written again, and must be the same JSON.
//
//     java -cp 'JARS/*' RestEntities.java URL FILE

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.runtime.rest.entities.ConfigInfos;
import org.apache.kafka.connect.runtime.rest.entities.ConfigKeyInfo;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorInfo;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorOffset;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorOffsets;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorStateInfo;
import org.apache.kafka.connect.runtime.rest.entities.CreateConnectorRequest;
import org.apache.kafka.connect.runtime.rest.entities.ErrorMessage;
import org.apache.kafka.connect.runtime.rest.entities.LoggerLevel;
import org.apache.kafka.connect.runtime.rest.entities.Message;
import org.apache.kafka.connect.runtime.rest.entities.PluginInfo;
import org.apache.kafka.connect.runtime.rest.entities.ServerInfo;
import org.apache.kafka.connect.runtime.rest.entities.TaskInfo;
import org.apache.kafka.connect.runtime.rest.entities.WorkerStatus;

public class RestEntities {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static String url;

    private static String send(String method, String path, Object body, int expected) throws Exception {
        HttpRequest.BodyPublisher content = body == null
            ? HttpRequest.BodyPublishers.noBody()
            : HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body));
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
            .header("Content-Type", "application/json").header("Accept", "application/json").method(method, content).build();
        HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != expected)
            throw new IllegalStateException(method + " " + path + ": " + answer.statusCode() + " " + answer.body());
        return answer.body();
    }

    private static <T> T read(String name, String text, TypeReference<T> type) throws Exception {
        T entity = JSON.readValue(text, type);
        JsonNode again = JSON.readTree(JSON.writeValueAsString(entity));
        if (!again.equals(JSON.readTree(text)))
            throw new IllegalStateException(name + ": " + text + " became " + again);
        System.out.println(name);
        return entity;
    }

    private static <T> T get(String name, String path, TypeReference<T> type) throws Exception {
        return read(name, send("GET", path, null, 200), type);
    }

    private static ConnectorStateInfo awaitState(String state, int tasks) throws Exception {
        while (true) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(url + "/connectors/java/status")).build();
            HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() == 404) { // it was created a moment ago, and no worker has started it yet
                Thread.sleep(50);
                continue;
            }
            ConnectorStateInfo info = JSON.readValue(answer.body(), ConnectorStateInfo.class);
            boolean reached = info.connector().state().equals(state) && info.tasks().size() == tasks
                && info.tasks().stream().allMatch(task -> task.state().equals(state));
            if (reached)
                return info;
            Thread.sleep(50);
        }
    }

    public static void main(String[] arguments) throws Exception {
        url = arguments[0];
        String file = arguments[1];
        Map<String, String> config = Map.of(
            "connector.class", "FileStreamSource", "file", file, "topic", "java",
            "value.converter", "org.apache.kafka.connect.storage.StringConverter");

        get("ServerInfo", "/", new TypeReference<ServerInfo>() { });
        get("WorkerStatus", "/health", new TypeReference<WorkerStatus>() { });
        get("PluginInfo", "/connector-plugins?connectorsOnly=false", new TypeReference<List<PluginInfo>>() { });
        get("ConfigKeyInfo", "/connector-plugins/FileStreamSource/config", new TypeReference<List<ConfigKeyInfo>>() { });
        read("ConfigInfos", send("PUT", "/connector-plugins/FileStreamSource/config/validate", config, 200),
            new TypeReference<ConfigInfos>() { });
        read("ErrorMessage", send("GET", "/connectors/java", null, 404), new TypeReference<ErrorMessage>() { });

        CreateConnectorRequest create = new CreateConnectorRequest("java", config, CreateConnectorRequest.InitialState.STOPPED);
        read("CreateConnectorRequest", send("POST", "/connectors", create, 201), new TypeReference<ConnectorInfo>() { });
        awaitState("STOPPED", 0);
        ConnectorOffsets wanted = new ConnectorOffsets(
            List.of(new ConnectorOffset(Map.of("filename", file), Map.of("position", 4))));
        read("Message", send("PATCH", "/connectors/java/offsets", wanted, 200), new TypeReference<Message>() { });
        ConnectorOffsets stored = get("ConnectorOffsets", "/connectors/java/offsets", new TypeReference<ConnectorOffsets>() { });
        if (!stored.toMap().equals(wanted.toMap()))
            throw new IllegalStateException("offsets " + stored);

        send("PUT", "/connectors/java/resume", null, 202);
        awaitState("RUNNING", 1);
        get("ConnectorStateInfo", "/connectors/java/status", new TypeReference<ConnectorStateInfo>() { });
        get("TaskState", "/connectors/java/tasks/0/status", new TypeReference<ConnectorStateInfo.TaskState>() { });
        get("TaskInfo", "/connectors/java/tasks", new TypeReference<List<TaskInfo>>() { });
        ConnectorInfo info = get("ConnectorInfo", "/connectors/java", new TypeReference<ConnectorInfo>() { });
        if (!info.config().get("file").equals(file) || info.tasks().size() != 1)
            throw new IllegalStateException("connector " + info);
        read("restart", send("POST", "/connectors/java/restart?includeTasks=true", null, 202),
            new TypeReference<ConnectorStateInfo>() { });
        get("LoggerLevel", "/admin/loggers/root", new TypeReference<LoggerLevel>() { });
        send("DELETE", "/connectors/java", null, 204);
        System.out.println("done");
    }
}
