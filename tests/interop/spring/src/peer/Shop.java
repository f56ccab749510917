package peer;

import io.rsocket.exceptions.CustomRSocketException;
import java.util.Map;
import java.util.NoSuchElementException;
import org.springframework.messaging.handler.annotation.DestinationVariable;
import org.springframework.messaging.handler.annotation.MessageExceptionHandler;
import org.springframework.messaging.handler.annotation.MessageMapping;
import org.springframework.messaging.rsocket.RSocketRequester;
import org.springframework.stereotype.Controller;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The programs in Java of docs/howto/coming-from-spring.md. */
final class Shop {
  private Shop() {}

  record Order(String itemName, int quantity) {}

  @Controller
  static class ShopController {
    private final Map<String, Double> prices = Map.of("tea", 2.5);

    @MessageMapping("shop.price")
    Mono<Double> price(Order order) {
      return Mono.just(priceOf(order.itemName()) * order.quantity());
    }

    @MessageMapping("shop.watch.{item}")
    Flux<Double> watch(@DestinationVariable String item) {
      double price = priceOf(item);
      return Flux.range(0, 3).map(change -> price + change);
    }

    @MessageExceptionHandler
    Mono<Void> noSuchItem(NoSuchElementException error) {
      return Mono.error(new CustomRSocketException(0x404, "no such item"));
    }

    private double priceOf(String item) {
      if (!prices.containsKey(item)) {
        throw new NoSuchElementException(item);
      }
      return prices.get(item);
    }
  }

  static class ShopClient {
    private final RSocketRequester requester;

    ShopClient(RSocketRequester requester) {
      this.requester = requester;
    }

    Mono<Double> price(Order order) {
      return requester.route("shop.price").data(order).retrieveMono(Double.class);
    }

    Flux<Double> watch(String item) {
      return requester.route("shop.watch.{item}", item).retrieveFlux(Double.class);
    }
  }
}
