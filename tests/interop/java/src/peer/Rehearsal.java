package peer;

import io.rsocket.RSocket;
import io.rsocket.util.DefaultPayload;
import java.time.Duration;
import reactor.core.publisher.Flux;

/**
 * Client and server in one program, and every interaction once. The build runs it to record which
 * classes the two load: with the archive of them the programs start in half the time.
 */
final class Rehearsal {
  private Rehearsal() {}

  public static void main(String[] arguments) {
    for (String scheme : new String[] {"tcp", "ws"}) {
      int port = Server.serve(scheme, 64, "").address().getPort();
      String uri = scheme + "://127.0.0.1:" + port;
      RSocket socket = Client.connect(uri, Duration.ofSeconds(20), 64, "");
      String text = "x".repeat(100);
      socket.requestResponse(DefaultPayload.create(text, text)).block();
      socket.fireAndForget(DefaultPayload.create(text)).block();
      socket.metadataPush(DefaultPayload.create("", text)).block();
      socket.requestStream(DefaultPayload.create("3")).blockLast();
      socket.requestChannel(Flux.just(text, text).map(DefaultPayload::create)).blockLast();
      socket.requestResponse(DefaultPayload.create("error:x")).onErrorComplete().block();
      socket.dispose();
    }
    System.exit(0);
  }
}
