package peer;

import java.nio.charset.StandardCharsets;
import org.springframework.messaging.handler.annotation.DestinationVariable;
import org.springframework.messaging.handler.annotation.MessageMapping;
import org.springframework.messaging.handler.annotation.Payload;
import org.springframework.messaging.rsocket.RSocketRequester;
import org.springframework.messaging.rsocket.annotation.ConnectMapping;
import org.springframework.stereotype.Controller;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The routes, of the servers and of the clients. What happens to a handler is told to the test. */
@Controller
final class Answers {
  @ConnectMapping("hello")
  Mono<Void> hello(@Payload(required = false) byte[] data) {
    Events.seen("hello " + (data == null ? "without data" : text(data)));
    return Mono.empty();
  }

  @MessageMapping("echo")
  Mono<byte[]> echo(Mono<byte[]> data) {
    return data;
  }

  @MessageMapping("optional")
  Mono<byte[]> optional(@Payload(required = false) Mono<byte[]> data) {
    return data.defaultIfEmpty(bytes("nothing"));
  }

  @MessageMapping("empty")
  Mono<byte[]> empty() {
    return Mono.empty();
  }

  @MessageMapping("fail")
  Mono<byte[]> fail(byte[] data) {
    return Mono.error(new IllegalStateException(text(data)));
  }

  @MessageMapping("never")
  Mono<byte[]> never() {
    return Mono.<byte[]>never().doOnCancel(() -> Events.seen("never cancelled"));
  }

  @MessageMapping("note")
  Mono<Void> note(byte[] data) {
    Events.seen("note " + text(data));
    return Mono.empty();
  }

  @MessageMapping("numbers.{count}")
  Flux<byte[]> numbers(
      @DestinationVariable int count) {
    return numbersUpTo(count);
  }

  @MessageMapping("numbers-then-fail")
  Flux<byte[]> numbersThenFail() {
    return numbersUpTo(3).concatWith(Mono.error(new IllegalStateException("no more numbers")));
  }

  @MessageMapping("large.{size}")
  Flux<byte[]> large(
      @DestinationVariable int size) {
    return Flux.just(new byte[size], new byte[0], new byte[size]);
  }

  @MessageMapping("both-ways")
  Flux<byte[]> bothWays(Flux<byte[]> items) {
    return items
        .doOnComplete(() -> Events.seen("items complete"))
        .doOnError(failure -> Events.seen("items failed " + failure.getMessage()))
        .doOnCancel(() -> Events.seen("items cancelled"));
  }

  @MessageMapping("one-by-one")
  Flux<byte[]> oneByOne(Flux<byte[]> items) {
    return items.limitRate(1);
  }

  @MessageMapping("first")
  Mono<byte[]> first(Flux<byte[]> items) {
    return items.next();
  }

  @MessageMapping("first-of-many")
  Flux<byte[]> firstOfMany(Flux<byte[]> items) {
    return items.take(1);
  }

  @MessageMapping("count")
  Mono<byte[]> count(Flux<byte[]> items) {
    return items.count().map(count -> bytes(count.toString()));
  }

  @MessageMapping("items-fail")
  Flux<byte[]> itemsFail(Flux<byte[]> items) {
    return items.concatMap(item -> Mono.error(new IllegalStateException("bad " + text(item))));
  }

  @MessageMapping("call-back")
  Flux<byte[]> callBack(byte[] data, RSocketRequester client) {
    return client.route("stream").data(data).retrieveFlux(byte[].class);
  }

  private static Flux<byte[]> numbersUpTo(int count) {
    return Flux.range(0, count)
        .map(number -> bytes(number.toString()))
        .doOnRequest(n -> Events.seen("asked for " + n))
        .doOnCancel(() -> Events.seen("numbers cancelled"));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String text(byte[] data) {
    return new String(data, StandardCharsets.UTF_8);
  }
}
