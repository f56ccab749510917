package peer;

import io.rsocket.Payload;
import io.rsocket.RSocket;
import io.rsocket.util.DefaultPayload;
import java.nio.ByteBuffer;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * The answers every peer of the interoperability tests gives: a test knows them beforehand,
 * whichever stack it talks to. ../../../js/known_answers.js gives the same ones.
 *
 * <p>One object per connection.
 */
final class KnownAnswers implements RSocket {
  private static final String ERROR = "error:";

  // Both are written and read by the one thread of their connection.
  private ByteBuffer lastFireAndForget = DefaultPayload.EMPTY_BUFFER;
  private ByteBuffer lastPush = DefaultPayload.EMPTY_BUFFER;

  @Override
  public Mono<Payload> requestResponse(Payload payload) {
    String text = payload.getDataUtf8();
    if (text.startsWith(ERROR)) {
      return Mono.error(new RuntimeException(text.substring(ERROR.length())));
    }
    return switch (text) {
      case "never" -> Mono.never();
      case "empty" -> Mono.empty();
      case "last-fnf" -> Mono.just(DefaultPayload.create(lastFireAndForget));
      case "last-push" -> Mono.just(DefaultPayload.create(lastPush));
      default -> Mono.just(payload);
    };
  }

  @Override
  public Mono<Void> fireAndForget(Payload payload) {
    lastFireAndForget = payload.getData();
    return Mono.empty();
  }

  @Override
  public Flux<Payload> requestStream(Payload payload) {
    return Flux.range(0, Integer.parseInt(payload.getDataUtf8()))
        .map(number -> DefaultPayload.create(number.toString()));
  }

  @Override
  public Flux<Payload> requestChannel(Publisher<Payload> payloads) {
    // Demand for the echo is demand for what is echoed, so it is passed through as it is.
    return Flux.from(payloads);
  }

  @Override
  public Mono<Void> metadataPush(Payload payload) {
    lastPush = payload.getMetadata();
    return Mono.empty();
  }
}
