package peer;

import io.rsocket.SocketAcceptor;
import io.rsocket.core.RSocketServer;
import io.rsocket.core.Resume;
import io.rsocket.transport.ServerTransport;
import io.rsocket.transport.netty.server.CloseableChannel;
import io.rsocket.transport.netty.server.TcpServerTransport;
import io.rsocket.transport.netty.server.WebsocketServerTransport;
import java.io.IOException;
import reactor.core.publisher.Mono;

/**
 * {@code Server tcp|ws [FRAGMENT_SIZE [LEASE|resume]]}: rsocket-java as the server. Says where it
 * listens, and serves until it is killed or its stdin ends. It fragments where a size above 0 is
 * given. LEASE, {@code N/SECONDS}, is what it grants, once, to clients that ask; with {@code resume}
 * it keeps their sessions; without either they are refused.
 */
final class Server {
  private static final String HOST = "127.0.0.1";

  private Server() {}

  public static void main(String[] arguments) throws IOException {
    String scheme = arguments[0];
    int fragmentSize = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 0;
    String extension = arguments.length > 2 ? arguments[2] : "";
    CloseableChannel server = serve(scheme, fragmentSize, extension);
    System.out.printf("listening on %s://%s:%d%n", scheme, HOST, server.address().getPort());
    while (System.in.read() >= 0) {
      // It is told nothing.
    }
    System.exit(0);
  }

  static CloseableChannel serve(String scheme, int fragmentSize, String extension) {
    SocketAcceptor acceptor = (setup, requester) -> Mono.just(new KnownAnswers());
    RSocketServer server = RSocketServer.create(acceptor).fragment(fragmentSize);
    switch (extension) {
      case "" -> {}
      case "resume" -> server.resume(new Resume());
      default -> server.lease(new OneLease(extension));
    }
    return server.bindNow(transport(scheme));
  }

  private static ServerTransport<CloseableChannel> transport(String scheme) {
    return switch (scheme) {
      case "tcp" -> TcpServerTransport.create(HOST, 0);
      case "ws" -> WebsocketServerTransport.create(HOST, 0);
      default -> throw new IllegalArgumentException(scheme);
    };
  }
}
