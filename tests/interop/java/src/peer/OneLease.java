package peer;

import io.rsocket.core.LeaseSpec;
import io.rsocket.lease.Lease;
import java.time.Duration;
import java.util.function.Consumer;
import reactor.core.publisher.Flux;

/** Grants {@code N/SECONDS} once per connection. */
final class OneLease implements Consumer<LeaseSpec> {
  private final int requests;
  private final Duration timeToLive;

  OneLease(String lease) {
    String[] parts = lease.split("/");
    requests = Integer.parseInt(parts[0]);
    timeToLive = Duration.ofSeconds(Long.parseLong(parts[1]));
  }

  @Override
  public void accept(LeaseSpec leases) {
    // It does not complete: there might be another one.
    leases.sender(() -> Flux.just(Lease.create(timeToLive, requests)).concatWith(Flux.never()));
  }
}
