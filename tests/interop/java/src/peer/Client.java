package peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.rsocket.Payload;
import io.rsocket.RSocket;
import io.rsocket.SocketAcceptor;
import io.rsocket.core.RSocketConnector;
import io.rsocket.core.Resume;
import io.rsocket.transport.ClientTransport;
import io.rsocket.transport.netty.client.TcpClientTransport;
import io.rsocket.transport.netty.client.WebsocketClientTransport;
import io.rsocket.util.DefaultPayload;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscription;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.util.retry.Retry;

/**
 * {@code Client URI [KEEPALIVE_MS [FRAGMENT_SIZE [LEASE|resume]]]}: rsocket-java as the client.
 *
 * <p>Driven over stdin and stdout with the commands and events that ../../../js/client.js
 * describes. It ends with its stdin. With LEASE, {@code N/SECONDS}, it asks for leases, keeps them,
 * and grants that one; with {@code resume} it resumes its session as often as it must.
 */
final class Client {
  private static final String MIME_TYPE = "application/octet-stream";
  private static final Duration LIFETIME = Duration.ofSeconds(90);
  private static final Duration RETRY = Duration.ofMillis(20);
  private static final HexFormat HEX = HexFormat.of();

  private final RSocket socket;
  private final Map<Integer, BaseSubscriber<Payload>> subscribers = new HashMap<>();

  private Client(RSocket socket) {
    this.socket = socket;
  }

  public static void main(String[] arguments) throws IOException {
    long keepAlive = arguments.length > 1 ? Long.parseLong(arguments[1]) : 20_000;
    int fragmentSize = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 0;
    String extension = arguments.length > 3 ? arguments[3] : "";
    RSocket socket =
        connect(arguments[0], Duration.ofMillis(keepAlive), fragmentSize, extension);
    socket
        .onClose()
        .subscribe(
            null,
            failure -> say(event("closed", String.valueOf(failure.getMessage()))),
            () -> say(event("closed", "")));
    Client client = new Client(socket);
    say(event("connected", ""));
    var commands =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    for (String line; (line = commands.readLine()) != null; ) {
      client.run(JsonParser.parseString(line).getAsJsonObject());
    }
    System.exit(0);
  }

  static RSocket connect(String uri, Duration keepAlive, int fragmentSize, String extension) {
    RSocketConnector connector =
        RSocketConnector.create()
            .dataMimeType(MIME_TYPE)
            .metadataMimeType(MIME_TYPE)
            .keepAlive(keepAlive, LIFETIME)
            .fragment(fragmentSize)
            .acceptor(SocketAcceptor.with(new KnownAnswers()));
    switch (extension) {
      case "" -> {}
      case "resume" -> connector.resume(new Resume().retry(Retry.fixedDelay(1000, RETRY)));
      default -> connector.lease(new OneLease(extension));
    }
    return connector.connect(transport(URI.create(uri))).block();
  }

  private static ClientTransport transport(URI uri) {
    return switch (uri.getScheme()) {
      case "tcp" -> TcpClientTransport.create(uri.getHost(), uri.getPort());
      case "ws" -> WebsocketClientTransport.create(uri);
      default -> throw new IllegalArgumentException(uri.getScheme());
    };
  }

  private void run(JsonObject command) {
    // Those that have no number of their own have a subscriber of nobody's.
    int id = command.has("id") ? command.get("id").getAsInt() : 0;
    switch (command.get("op").getAsString()) {
      case "request_response" ->
          receive(id, socket.requestResponse(payload(command)), Long.MAX_VALUE);
      case "fire_and_forget" -> send(id, socket.fireAndForget(payload(command)));
      case "metadata_push" -> send(id, socket.metadataPush(payload(command)));
      case "request_stream" ->
          receive(id, socket.requestStream(payload(command)), initialN(command));
      case "request_channel" ->
          receive(id, socket.requestChannel(source(id, command)), initialN(command));
      case "request_n" -> subscribers.get(id).request(command.get("n").getAsInt());
      case "cancel" -> subscribers.get(id).cancel();
      case "close" -> socket.dispose();
      default -> throw new IllegalArgumentException(command.toString());
    }
  }

  private static int initialN(JsonObject command) {
    return command.get("initial_n").getAsInt();
  }

  private static Payload payload(JsonObject command) {
    byte[] data = fromHex(command.get("data"));
    // An absent metadata field is null, and stays absent.
    return DefaultPayload.create(
        data == null ? new byte[0] : data, fromHex(command.get("metadata")));
  }

  private void receive(int id, Publisher<Payload> payloads, long initialN) {
    var subscriber =
        new BaseSubscriber<Payload>() {
          @Override
          protected void hookOnSubscribe(Subscription subscription) {
            subscription.request(initialN);
          }

          @Override
          protected void hookOnNext(Payload payload) {
            JsonObject event = event(id, "next");
            event.addProperty("data", toHex(payload.getData()));
            event.addProperty(
                "metadata", payload.hasMetadata() ? toHex(payload.getMetadata()) : null);
            say(event);
          }

          @Override
          protected void hookOnComplete() {
            say(event(id, "complete"));
          }

          @Override
          protected void hookOnError(Throwable failure) {
            sayError(id, failure);
          }
        };
    subscribers.put(id, subscriber);
    payloads.subscribe(subscriber);
  }

  private static void send(int id, Mono<Void> sending) {
    sending.subscribe(null, failure -> sayError(id, failure), () -> say(event(id, "sent")));
  }

  /** The source of a channel: its items as they are asked for, telling what was asked for. */
  private static Flux<Payload> source(int id, JsonObject command) {
    List<Payload> items = new ArrayList<>();
    for (JsonElement item : command.get("items").getAsJsonArray()) {
      items.add(DefaultPayload.create(fromHex(item)));
    }
    Flux<Payload> source = Flux.fromIterable(items);
    if (command.get("open").getAsBoolean()) {
      source = source.concatWith(Flux.never());
    }
    return source
        .doOnRequest(
            n -> {
              JsonObject event = event(id, "granted");
              event.addProperty("n", n);
              say(event);
            })
        .doOnCancel(() -> say(event(id, "cancelled")));
  }

  private static byte[] fromHex(JsonElement text) {
    return text == null || text.isJsonNull() ? null : HEX.parseHex(text.getAsString());
  }

  private static String toHex(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return HEX.formatHex(bytes);
  }

  private static JsonObject event(String name, String message) {
    JsonObject event = new JsonObject();
    event.addProperty("event", name);
    event.addProperty("message", message);
    return event;
  }

  private static JsonObject event(int id, String name) {
    JsonObject event = new JsonObject();
    event.addProperty("id", id);
    event.addProperty("event", name);
    return event;
  }

  private static void sayError(int id, Throwable failure) {
    JsonObject event = event(id, "error");
    event.addProperty("message", String.valueOf(failure.getMessage()));
    say(event);
  }

  private static void say(JsonObject event) {
    // A line is written at once, so lines of different threads do not mix.
    System.out.println(event.toString());
  }
}
