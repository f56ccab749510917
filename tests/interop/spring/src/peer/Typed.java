package peer;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.springframework.core.ParameterizedTypeReference;
import org.springframework.messaging.handler.annotation.MessageMapping;
import org.springframework.stereotype.Controller;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** A handler for each type of the table in docs/howto/spring.md, and a value of it. */
@Controller
final class Typed {
  enum Colour { RED, DARK_RED }

  record Line(String skuCode, int quantity, String note) {}

  record Everything(
      String customerName, int number, long large, double real, boolean paid, BigInteger huge,
      BigDecimal totalPrice, byte[] octets, UUID orderId, LocalDate day, LocalTime time,
      LocalDateTime localMoment, Instant instant, OffsetDateTime moment, Duration duration,
      Colour colour, Line firstLine, List<Line> orderLines, Map<Integer, String> byNumber,
      Set<String> tags) {}

  /** A value of a type that Jackson is told in full. */
  record Sample<T>(T value, ParameterizedTypeReference<T> type) {}

  private static final Line LINE = new Line("tea", 2, null);

  static final Everything EVERYTHING =
      new Everything(
          "Zoë", 7, 9007199254740993L, 0.5, true, new BigInteger("1180591620717411303424"),
          new BigDecimal("12.50"), new byte[] {0, -1}, UUID.fromString(
              "00000000-0000-0000-0000-00000000002a"),
          LocalDate.parse("2024-05-06"), LocalTime.parse("07:08:09"),
          LocalDateTime.parse("2024-05-06T07:08:09"), Instant.parse("2024-05-06T07:08:09Z"),
          OffsetDateTime.parse("2024-05-06T07:08:09Z"), Duration.ofMinutes(90), Colour.DARK_RED,
          LINE, List.of(LINE, new Line("milk", 1, "cold")), Map.of(7, "seven"), Set.of("new"));

  static final Map<String, Sample<?>> SAMPLES =
      Map.ofEntries(
          Map.entry("String", new Sample<>("foreign ü", new ParameterizedTypeReference<>() {})),
          Map.entry("int", new Sample<>(EVERYTHING.number, new ParameterizedTypeReference<>() {})),
          Map.entry("long", new Sample<>(EVERYTHING.large, new ParameterizedTypeReference<>() {})),
          Map.entry("double", new Sample<>(EVERYTHING.real, new ParameterizedTypeReference<>() {})),
          Map.entry("boolean", new Sample<>(EVERYTHING.paid, new ParameterizedTypeReference<>() {})),
          Map.entry("BigInteger", new Sample<>(EVERYTHING.huge, new ParameterizedTypeReference<>() {})),
          Map.entry(
              "BigDecimal", new Sample<>(EVERYTHING.totalPrice, new ParameterizedTypeReference<>() {})),
          Map.entry("byte[]", new Sample<>(EVERYTHING.octets, new ParameterizedTypeReference<>() {})),
          Map.entry("UUID", new Sample<>(EVERYTHING.orderId, new ParameterizedTypeReference<>() {})),
          Map.entry("LocalDate", new Sample<>(EVERYTHING.day, new ParameterizedTypeReference<>() {})),
          Map.entry("LocalTime", new Sample<>(EVERYTHING.time, new ParameterizedTypeReference<>() {})),
          Map.entry(
              "LocalDateTime", new Sample<>(EVERYTHING.localMoment, new ParameterizedTypeReference<>() {})),
          Map.entry("Instant", new Sample<>(EVERYTHING.instant, new ParameterizedTypeReference<>() {})),
          Map.entry(
              "OffsetDateTime", new Sample<>(EVERYTHING.moment, new ParameterizedTypeReference<>() {})),
          Map.entry("Duration", new Sample<>(EVERYTHING.duration, new ParameterizedTypeReference<>() {})),
          Map.entry("enum", new Sample<>(EVERYTHING.colour, new ParameterizedTypeReference<>() {})),
          Map.entry("record", new Sample<>(LINE, new ParameterizedTypeReference<>() {})),
          Map.entry("List<Line>", new Sample<>(EVERYTHING.orderLines, new ParameterizedTypeReference<>() {})),
          Map.entry(
              "Map<Integer, String>",
              new Sample<>(EVERYTHING.byNumber, new ParameterizedTypeReference<>() {})),
          Map.entry("Set<String>", new Sample<>(EVERYTHING.tags, new ParameterizedTypeReference<>() {})),
          Map.entry("Everything", new Sample<>(EVERYTHING, new ParameterizedTypeReference<>() {})));

  /** What a value is in Java. */
  static String described(Object value) {
    if (value instanceof byte[] octets) {
      return HexFormat.of().formatHex(octets);
    }
    String text = String.valueOf(value);
    return value instanceof Everything everything
        ? text.replaceAll("octets=[^,]*", "octets=" + described(everything.octets))
        : text;
  }

  private static <T> Mono<T> seen(T value) {
    Events.seen(described(value));
    return Mono.just(value);
  }

  @MessageMapping("String")
  Mono<String> text(String value) {
    return seen(value);
  }

  @MessageMapping("int")
  Mono<Integer> number(int value) {
    return seen(value);
  }

  @MessageMapping("long")
  Mono<Long> large(long value) {
    return seen(value);
  }

  @MessageMapping("double")
  Mono<Double> real(double value) {
    return seen(value);
  }

  @MessageMapping("boolean")
  Mono<Boolean> truth(boolean value) {
    return seen(value);
  }

  @MessageMapping("BigInteger")
  Mono<BigInteger> huge(BigInteger value) {
    return seen(value);
  }

  @MessageMapping("BigDecimal")
  Mono<BigDecimal> price(BigDecimal value) {
    return seen(value);
  }

  @MessageMapping("byte[]")
  Mono<byte[]> octets(byte[] value) {
    return seen(value);
  }

  @MessageMapping("UUID")
  Mono<UUID> uuid(UUID value) {
    return seen(value);
  }

  @MessageMapping("LocalDate")
  Mono<LocalDate> day(LocalDate value) {
    return seen(value);
  }

  @MessageMapping("LocalTime")
  Mono<LocalTime> time(LocalTime value) {
    return seen(value);
  }

  @MessageMapping("LocalDateTime")
  Mono<LocalDateTime> localMoment(LocalDateTime value) {
    return seen(value);
  }

  @MessageMapping("Instant")
  Mono<Instant> instant(Instant value) {
    return seen(value);
  }

  @MessageMapping("OffsetDateTime")
  Mono<OffsetDateTime> moment(OffsetDateTime value) {
    return seen(value);
  }

  @MessageMapping("Duration")
  Mono<Duration> duration(Duration value) {
    return seen(value);
  }

  @MessageMapping("enum")
  Mono<Colour> colour(Colour value) {
    return seen(value);
  }

  @MessageMapping("record")
  Mono<Line> line(Line value) {
    return seen(value);
  }

  @MessageMapping("List<Line>")
  Mono<List<Line>> lines(List<Line> value) {
    return seen(value);
  }

  @MessageMapping("Map<Integer, String>")
  Mono<Map<Integer, String>> byNumber(Map<Integer, String> value) {
    return seen(value);
  }

  @MessageMapping("Set<String>")
  Mono<Set<String>> tags(Set<String> value) {
    return seen(value);
  }

  @MessageMapping("Everything")
  Mono<Everything> everything(Everything value) {
    return seen(value);
  }

  @MessageMapping("each")
  Flux<Everything> each(Flux<Everything> values) {
    return values;
  }

  @MessageMapping("words")
  Flux<String> words(String text) {
    return Flux.fromArray(text.split(" "));
  }
}
