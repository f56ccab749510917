package peer;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.List;
import java.util.UUID;
import org.springframework.messaging.handler.annotation.MessageMapping;
import org.springframework.messaging.rsocket.RSocketRequester;
import org.springframework.stereotype.Controller;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The programs in Java of docs/howto/spring.md. */
final class Orders {
  private Orders() {}

  enum Status { NEW, PAID }

  record Line(String sku, int quantity) {}

  record Order(
      UUID orderId, LocalDate orderedOn, BigDecimal totalPrice, Status status,
      List<Line> orderLines) {}

  @Controller
  static class OrderController {
    @MessageMapping("orders.greet")
    Mono<String> greet(String name) {
      return Mono.just("Hello, " + name);
    }

    @MessageMapping("orders.pay")
    Mono<Order> pay(Order order) {
      return Mono.just(
          new Order(order.orderId(), order.orderedOn(), order.totalPrice(), Status.PAID,
              order.orderLines()));
    }

    @MessageMapping("orders.lines")
    Flux<Line> lines(Order order) {
      return Flux.fromIterable(order.orderLines());
    }
  }

  static class OrderClient {
    private final RSocketRequester requester;

    OrderClient(RSocketRequester requester) {
      this.requester = requester;
    }

    Mono<String> greet(String name) {
      return requester.route("orders.greet").data(name).retrieveMono(String.class);
    }

    Mono<Order> pay(Order order) {
      return requester.route("orders.pay").data(order).retrieveMono(Order.class);
    }

    Flux<Line> lines(Order order) {
      return requester.route("orders.lines").data(order).retrieveFlux(Line.class);
    }
  }
}
