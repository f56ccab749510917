package bench;

import com.google.gson.Gson;
import io.rsocket.Payload;
import io.rsocket.RSocket;
import io.rsocket.core.RSocketConnector;
import io.rsocket.frame.decoder.PayloadDecoder;
import io.rsocket.transport.ClientTransport;
import io.rsocket.transport.netty.client.TcpClientTransport;
import io.rsocket.transport.netty.client.WebsocketClientTransport;
import io.rsocket.util.DefaultPayload;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.reactivestreams.Subscription;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.SignalType;
import reactor.netty.tcp.TcpClient;

/** {@code Client URI [FRAGMENT_SIZE]}: rsocket-java as the client, driven by its input. */
final class Client {
  private static final String MIME_TYPE = "application/octet-stream";
  private static final Duration INTERVAL = Duration.ofSeconds(60);
  private static final Duration LIFETIME = Duration.ofSeconds(600);
  private static final int BURST = 1000;
  private static final Gson GSON = new Gson();

  private final URI uri;
  private final int fragmentSize;
  private final RSocket socket;
  private final List<RSocket> many = new ArrayList<>();

  private Client(URI uri, int fragmentSize) {
    this.uri = uri;
    this.fragmentSize = fragmentSize;
    this.socket = connect();
  }

  /** What it is asked for; the names are those of the commands. */
  private record Command(
      String operation,
      double seconds,
      int in_flight,
      int size,
      int window,
      int streams,
      int items,
      int connections) {}

  public static void main(String[] arguments) throws IOException {
    int fragmentSize = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 0;
    Client client = new Client(URI.create(arguments[0]), fragmentSize);
    var commands =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    for (String line; (line = commands.readLine()) != null; ) {
      Map<String, ?> outcome;
      try {
        outcome = client.run(GSON.fromJson(line, Command.class)).outcome();
      } catch (RuntimeException failure) {
        outcome = Map.of("error", failure.toString());
      }
      System.out.println(GSON.toJson(outcome));
    }
    System.exit(0);
  }

  private RSocket connect() {
    ClientTransport transport =
        uri.getScheme().equals("ws")
            ? WebsocketClientTransport.create(uri)
            // Out of the pool, which has 500 at most.
            : TcpClientTransport.create(
                TcpClient.newConnection().host(uri.getHost()).port(uri.getPort()));
    return RSocketConnector.create()
        .payloadDecoder(PayloadDecoder.ZERO_COPY)
        .dataMimeType(MIME_TYPE)
        .metadataMimeType(MIME_TYPE)
        .keepAlive(INTERVAL, LIFETIME)
        .fragment(fragmentSize)
        .connect(transport)
        .block();
  }

  private Stopwatch run(Command command) {
    double seconds = command.seconds();
    return switch (command.operation()) {
      case "sequential" -> {
        var watch = new Stopwatch(seconds, true);
        yield askAll(List.of(socket), watch, Server.ITEM);
      }
      case "request_response" -> {
        byte[] data =
            command.size() > 0 ? Server.filled(command.size()) : Server.ITEM;
        var sockets = Collections.nCopies(command.in_flight(), socket);
        yield askAll(sockets, new Stopwatch(seconds, false), data);
      }
      case "many_connections" -> {
        while (many.size() < command.connections()) {
          many.add(connect());
        }
        yield askAll(many, new Stopwatch(seconds, false), Server.ITEM);
      }
      case "request_stream" -> {
        var watch = new Stopwatch(seconds, false);
        var stream = socket.requestStream(DefaultPayload.create(new byte[0]));
        consume(stream, watch, command.window()).join();
        yield watch;
      }
      case "request_channel" -> {
        var watch = new Stopwatch(seconds, false);
        var channel = socket.requestChannel(Server.items(Integer.MAX_VALUE));
        consume(channel, watch, command.window()).join();
        yield watch;
      }
      case "many_streams" -> manyStreams(command);
      case "fire_and_forget" -> fireAndForget(seconds);
      default -> throw new IllegalArgumentException(command.operation());
    };
  }

  /** Keeps one request of each of the sockets in flight until the deadline. */
  private static Stopwatch askAll(List<RSocket> sockets, Stopwatch watch, byte[] data) {
    var all =
        sockets.stream().map(socket -> ask(socket, watch, data, new CompletableFuture<Void>()));
    join(all.toList().stream());
    return watch;
  }

  private static CompletableFuture<Void> ask(
      RSocket socket, Stopwatch watch, byte[] data, CompletableFuture<Void> done) {
    socket
        .requestResponse(DefaultPayload.create(data))
        .subscribe(
            answer -> {
              int length = answer.data().readableBytes();
              answer.release();
              watch.add();
              if (length != data.length) {
                done.completeExceptionally(new IllegalStateException(length + " bytes"));
              } else if (watch.isRunning()) {
                ask(socket, watch, data, done);
              } else {
                done.complete(null);
              }
            },
            done::completeExceptionally);
    return done;
  }

  /** Counts items, grants more when three quarters of the window are consumed, then cancels. */
  private static CompletableFuture<Void> consume(Flux<Payload> items, Stopwatch watch, int window) {
    int batch = Math.max(1, window * 3 / 4);
    var done = new CompletableFuture<Void>();
    items.subscribe(
        new BaseSubscriber<Payload>() {
          private int consumed;

          @Override
          protected void hookOnSubscribe(Subscription subscription) {
            subscription.request(window);
          }

          @Override
          protected void hookOnNext(Payload item) {
            item.release();
            watch.add();
            if (++consumed < batch) {
              return;
            }
            if (watch.isRunning()) {
              request(consumed);
              consumed = 0;
            } else {
              cancel();
            }
          }

          @Override
          protected void hookOnError(Throwable failure) {
            done.completeExceptionally(failure);
          }

          @Override
          protected void hookFinally(SignalType how) {
            done.complete(null);
          }
        });
    return done;
  }

  private Stopwatch manyStreams(Command command) {
    var watch = new Stopwatch(1e6, false);
    byte[] data = Integer.toString(command.items()).getBytes(StandardCharsets.US_ASCII);
    var all = new ArrayList<CompletableFuture<Void>>();
    for (int i = 0; i < command.streams(); i++) {
      var stream = socket.requestStream(DefaultPayload.create(data));
      all.add(consume(stream, watch, command.window()));
    }
    join(all.stream());
    return watch;
  }

  private static void join(Stream<CompletableFuture<Void>> all) {
    CompletableFuture.allOf(all.toArray(CompletableFuture[]::new)).join();
  }

  private Stopwatch fireAndForget(double seconds) {
    long before = seen();
    var watch = new Stopwatch(seconds, false);
    Runnable send =
        () -> {
          do { // once at least, however late this thread begins
            for (int i = 0; i < BURST; i++) {
              socket.fireAndForget(DefaultPayload.create(Server.ITEM)).subscribe();
            }
            watch.add(BURST);
            seen();
          } while (watch.isRunning());
        };
    join(Stream.of(CompletableFuture.runAsync(send), CompletableFuture.runAsync(send)));
    while (seen() < before + watch.count()) {
      // The answer to the next question comes after more messages.
    }
    return watch;
  }

  private long seen() {
    Payload answer = socket.requestResponse(DefaultPayload.create(Server.COUNT)).block();
    try {
      return Long.parseLong(answer.getDataUtf8());
    } finally {
      answer.release();
    }
  }
}
