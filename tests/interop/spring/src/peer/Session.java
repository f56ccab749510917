package peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.rsocket.RSocket;
import io.rsocket.SocketAcceptor;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscription;
import org.springframework.messaging.rsocket.RSocketRequester;
import org.springframework.messaging.rsocket.RSocketStrategies;
import org.springframework.messaging.rsocket.annotation.support.RSocketMessageHandler;
import org.springframework.security.rsocket.metadata.BearerTokenAuthenticationEncoder;
import org.springframework.security.rsocket.metadata.BearerTokenMetadata;
import org.springframework.security.rsocket.metadata.SimpleAuthenticationEncoder;
import org.springframework.security.rsocket.metadata.UsernamePasswordMetadata;
import org.springframework.util.MimeType;
import org.springframework.util.MimeTypeUtils;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * The commands of one test, and what it has started: that ends with it.
 *
 * <p>Commands and events are those of ../../../js/client.js, and beside them:
 *
 * <pre>
 *   {"id", "op": "serve", "transport": "tcp" | "ws", "fragment", "security", "own"}
 *        "security": "simple", "bearer" or "false"; "own": the test can stop this server
 *   {"id", "op": "stop"}: the server with that number
 *   {"id", "op": "connect", "uri", "fragment", "keepalive", "security", "route", "auth"}
 *        "security": "simple" or "bearer", the kind of all its authentications
 *        "mime": with it, the connection has this MIME type and the codecs of an application
 *   {"id", "op": "typed", "connection", "route", "sample", "interaction"}
 *        "sample": the name of a value of Typed; "interaction": "response", "stream" or "channel"
 *   {"id", "op": "orders", "connection"}: what a client of Orders does; "shop": one of Shop
 *   {"id", "op": "close"}: the connection with that number
 *   {"id", "event": "serving", "uri"}    {"id", "event": "stopped"}    {"id", "event": "closed"}
 *   {"id", "event": "next", "text"}: a typed value, described
 *   {"event"}: what a handler has seen
 * </pre>
 *
 * <p>A request names its "connection" and its "route", and may have an "auth": a token, or "user:"
 * and a password.
 */
final class Session implements AutoCloseable {
  private static final MimeType AUTHENTICATION =
      MimeTypeUtils.parseMimeType("message/x.rsocket.authentication.v0");
  private static final Duration LIFETIME = Duration.ofSeconds(90);
  private static final HexFormat HEX = HexFormat.of();

  private final BufferedReader commands;
  private final Events events;
  private final Map<Integer, Server> servers = new HashMap<>();
  private final Map<Integer, RSocketRequester> connections = new HashMap<>();
  private final Map<Integer, BaseSubscriber<byte[]>> subscribers = new HashMap<>();

  Session(Socket socket) throws IOException {
    commands =
        new BufferedReader(
            new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
    events = new Events(new PrintStream(socket.getOutputStream(), true, StandardCharsets.UTF_8));
  }

  void run() throws IOException {
    for (String line; (line = commands.readLine()) != null; ) {
      JsonObject command = JsonParser.parseString(line).getAsJsonObject();
      try {
        run(command, command.get("id").getAsInt());
      } catch (RuntimeException failure) {
        events.sayError(command.get("id").getAsInt(), failure);
      }
    }
  }

  @Override
  public void close() {
    connections.values().forEach(RSocketRequester::dispose);
    servers.values().forEach(Server::close);
  }

  private void run(JsonObject command, int id) {
    switch (command.get("op").getAsString()) {
      case "serve" -> serve(id, command);
      case "stop" -> {
        servers.remove(id).close();
        events.say(id, "stopped");
      }
      case "connect" -> connect(id, command);
      case "close" -> connections.remove(id).dispose();
      case "request_response" -> receive(id, command, data(command).retrieveMono(byte[].class));
      case "fire_and_forget" -> send(id, data(command).send());
      case "metadata_push" -> send(id, request(command).sendMetadata());
      case "request_stream" -> receive(id, command, data(command).retrieveFlux(byte[].class));
      case "request_channel" ->
          receive(
              id,
              command,
              request(command).data(source(id, command), byte[].class).retrieveFlux(byte[].class));
      case "typed" -> typed(id, command, Typed.SAMPLES.get(command.get("sample").getAsString()));
      case "orders" -> orders(id, new Orders.OrderClient(requester(command)));
      case "shop" -> shop(id, new Shop.ShopClient(requester(command)));
      case "request_n" -> subscribers.get(id).request(command.get("n").getAsInt());
      case "cancel" -> subscribers.get(id).cancel();
      default -> throw new IllegalArgumentException(command.toString());
    }
  }

  private void serve(int id, JsonObject command) {
    String transport = command.get("transport").getAsString();
    int fragmentSize = command.get("fragment").getAsInt();
    String security = command.get("security").getAsString();
    Server server;
    if (command.get("own").getAsBoolean()) {
      server = Server.start(transport, fragmentSize, security);
      servers.put(id, server);
    } else {
      server = Server.kept(transport, fragmentSize, security);
    }
    JsonObject event = Events.event(id, "serving");
    event.addProperty("uri", server.uri());
    events.say(event);
  }

  private void connect(int id, JsonObject command) {
    RSocketStrategies strategies =
        RSocketStrategies.builder()
            .encoder(
                // Spring takes the first for this MIME type, whatever the object is.
                command.get("security").getAsString().equals("bearer")
                    ? new BearerTokenAuthenticationEncoder()
                    : new SimpleAuthenticationEncoder())
            .build();
    MimeType mimeType = MimeTypeUtils.APPLICATION_OCTET_STREAM;
    if (command.has("mime")) {
      strategies = Server.kept("tcp", 0, "false").strategies();
      mimeType = MimeTypeUtils.parseMimeType(command.get("mime").getAsString());
    }
    SocketAcceptor acceptor = RSocketMessageHandler.responder(strategies, new Answers());
    RSocketRequester.Builder builder =
        RSocketRequester.builder()
            .rsocketStrategies(strategies)
            .dataMimeType(mimeType)
            .rsocketConnector(
                connector ->
                    connector
                        .fragment(command.get("fragment").getAsInt())
                        .keepAlive(
                            Duration.ofMillis(command.get("keepalive").getAsLong()), LIFETIME)
                        .acceptor(acceptor));
    if (command.has("route")) {
      builder.setupRoute(command.get("route").getAsString());
      builder.setupData("from Spring".getBytes(StandardCharsets.US_ASCII));
    }
    if (command.has("auth")) {
      builder.setupMetadata(authentication(command), AUTHENTICATION);
    }
    URI uri = URI.create(command.get("uri").getAsString());
    RSocketRequester requester =
        switch (uri.getScheme()) {
          case "tcp" -> builder.tcp(uri.getHost(), uri.getPort());
          case "ws" -> builder.websocket(uri);
          default -> throw new IllegalArgumentException(uri.getScheme());
        };
    connections.put(id, requester);
    RSocket socket = requester.rsocketClient().source().block();
    events.say(id, "connected");
    socket
        .onClose()
        .subscribe(
            null,
            failure -> {
              JsonObject event = Events.event(id, "closed");
              event.addProperty("message", String.valueOf(failure));
              events.say(event);
            },
            () -> events.say(id, "closed"));
  }

  private static Object authentication(JsonObject command) {
    String text = command.get("auth").getAsString();
    int colon = text.indexOf(':');
    return colon < 0
        ? new BearerTokenMetadata(text)
        : new UsernamePasswordMetadata(text.substring(0, colon), text.substring(colon + 1));
  }

  private RSocketRequester requester(JsonObject command) {
    return connections.get(command.get("connection").getAsInt());
  }

  private <T> void typed(int id, JsonObject command, Typed.Sample<T> sample) {
    RSocketRequester.RequestSpec request = request(command);
    say(
        id,
        switch (command.get("interaction").getAsString()) {
          case "response" -> request.data(sample.value()).retrieveMono(sample.type());
          case "stream" -> request.data(sample.value()).retrieveFlux(sample.type());
          case "channel" ->
              request
                  .data(Flux.just(sample.value(), sample.value()), sample.type())
                  .retrieveFlux(sample.type());
          default -> throw new IllegalArgumentException(command.toString());
        });
  }

  private void orders(int id, Orders.OrderClient client) {
    Orders.Order order =
        new Orders.Order(
            new UUID(0, 42),
            LocalDate.parse("2024-05-06"),
            new BigDecimal("12.50"),
            Orders.Status.NEW,
            List.of(new Orders.Line("tea", 2), new Orders.Line("milk", 1)));
    say(id, Flux.concat(client.greet("Ada"), client.pay(order), client.lines(order)));
  }

  private void shop(int id, Shop.ShopClient client) {
    say(id, Flux.concat(client.price(new Shop.Order("tea", 4)), client.watch("tea")));
  }

  private void say(int id, Publisher<?> values) {
    Flux.from(values)
        .subscribe(
            value -> {
              JsonObject event = Events.event(id, "next");
              event.addProperty("text", Typed.described(value));
              events.say(event);
            },
            failure -> events.sayError(id, failure),
            () -> events.say(id, "complete"));
  }

  private RSocketRequester.RequestSpec request(JsonObject command) {
    var request = requester(command).route(command.get("route").getAsString());
    return command.has("auth")
        ? request.metadata(authentication(command), AUTHENTICATION)
        : request;
  }

  private RSocketRequester.RetrieveSpec data(JsonObject command) {
    JsonElement data = command.get("data");
    return data.isJsonNull() ? request(command) : request(command).data(fromHex(data));
  }

  private void receive(int id, JsonObject command, Publisher<byte[]> items) {
    long initialN =
        command.has("initial_n") ? command.get("initial_n").getAsLong() : Long.MAX_VALUE;
    var subscriber =
        new BaseSubscriber<byte[]>() {
          @Override
          protected void hookOnSubscribe(Subscription subscription) {
            subscription.request(initialN);
          }

          @Override
          protected void hookOnNext(byte[] data) {
            JsonObject event = Events.event(id, "next");
            event.addProperty("data", HEX.formatHex(data));
            event.addProperty("metadata", (String) null);
            events.say(event);
          }

          @Override
          protected void hookOnComplete() {
            events.say(id, "complete");
          }

          @Override
          protected void hookOnError(Throwable failure) {
            events.sayError(id, failure);
          }
        };
    subscribers.put(id, subscriber);
    items.subscribe(subscriber);
  }

  private void send(int id, Mono<Void> sending) {
    sending.subscribe(
        null, failure -> events.sayError(id, failure), () -> events.say(id, "sent"));
  }

  /** The source of a channel: its items as they are asked for, telling what was asked for. */
  private Flux<byte[]> source(int id, JsonObject command) {
    List<byte[]> items = new ArrayList<>();
    for (JsonElement item : command.get("items").getAsJsonArray()) {
      items.add(fromHex(item));
    }
    Flux<byte[]> source = Flux.fromIterable(items);
    if (command.has("failure")) {
      String text = command.get("failure").getAsString();
      source = source.concatWith(Mono.error(new IllegalStateException(text)));
    } else if (command.get("open").getAsBoolean()) {
      source = source.concatWith(Flux.never());
    }
    return source
        .doOnRequest(
            n -> {
              JsonObject event = Events.event(id, "granted");
              event.addProperty("n", n);
              events.say(event);
            })
        .doOnCancel(() -> events.say(id, "cancelled"));
  }

  private static byte[] fromHex(JsonElement text) {
    return HEX.parseHex(text.getAsString());
  }
}
