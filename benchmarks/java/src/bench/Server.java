package bench;

import io.rsocket.Payload;
import io.rsocket.RSocket;
import io.rsocket.core.RSocketServer;
import io.rsocket.frame.decoder.PayloadDecoder;
import io.rsocket.transport.ServerTransport;
import io.rsocket.transport.netty.server.CloseableChannel;
import io.rsocket.transport.netty.server.TcpServerTransport;
import io.rsocket.transport.netty.server.WebsocketServerTransport;
import io.rsocket.util.DefaultPayload;
import java.io.IOException;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * {@code Server tcp|ws [FRAGMENT_SIZE]}: rsocket-java as the server, without copies of what it
 * receives. It does what the servers of the other stacks do, and serves until its input ends.
 */
final class Server implements RSocket {
  static final byte[] ITEM = filled(128);

  /** The request for how many fire-and-forget messages were seen. */
  static final String COUNT = "count";

  /** The request for a stream that never gives an item. */
  private static final String IDLE = "idle";

  private static final int LONGEST_WORD = 16;

  private final AtomicLong seen = new AtomicLong();

  private Server() {}

  public static void main(String[] arguments) throws IOException {
    String scheme = arguments[0];
    CloseableChannel server =
        RSocketServer.create((setup, requester) -> Mono.just(new Server()))
            .payloadDecoder(PayloadDecoder.ZERO_COPY)
            .fragment(arguments.length > 1 ? Integer.parseInt(arguments[1]) : 0)
            .bindNow(transport(scheme));
    System.out.printf("READY %s://127.0.0.1:%d%n", scheme, server.address().getPort());
    while (System.in.read() >= 0) {
      // It is told nothing.
    }
    System.exit(0);
  }

  private static ServerTransport<CloseableChannel> transport(String scheme) {
    return switch (scheme) {
      case "tcp" -> TcpServerTransport.create("127.0.0.1", 0);
      case "ws" -> WebsocketServerTransport.create("127.0.0.1", 0);
      default -> throw new IllegalArgumentException(scheme);
    };
  }

  static byte[] filled(int size) {
    byte[] data = new byte[size];
    Arrays.fill(data, (byte) 'x');
    return data;
  }

  /** As many items as are requested, at once. */
  static Flux<Payload> items(int total) {
    return Flux.range(0, total).map(number -> DefaultPayload.create(ITEM));
  }

  @Override
  public Mono<Payload> requestResponse(Payload request) {
    if (word(request).equals(COUNT)) {
      request.release();
      return Mono.just(DefaultPayload.create(Long.toString(seen.get())));
    }
    return Mono.just(request); // whoever sends it releases it
  }

  @Override
  public Mono<Void> fireAndForget(Payload message) {
    message.release();
    seen.incrementAndGet();
    return Mono.empty();
  }

  @Override
  public Flux<Payload> requestStream(Payload request) {
    String wanted = word(request);
    request.release();
    return switch (wanted) {
      case "" -> items(Integer.MAX_VALUE);
      case IDLE -> Flux.never();
      default -> items(Integer.parseInt(wanted));
    };
  }

  @Override
  public Flux<Payload> requestChannel(Publisher<Payload> payloads) {
    return Flux.from(payloads);
  }

  /** The data as text where it is short, and so may be one of the words that mean something. */
  private static String word(Payload payload) {
    return payload.data().readableBytes() <= LONGEST_WORD ? payload.getDataUtf8() : "-";
  }
}
