package peer;

import java.util.HashMap;
import java.util.Map;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.http.client.ReactorResourceFactory;
import org.springframework.messaging.rsocket.RSocketStrategies;

/**
 * A Spring Boot application that serves {@link Answers}, as anyone would write it; several of them
 * in one program.
 */
@EnableAutoConfiguration
@Import({
  Answers.class,
  Typed.class,
  Orders.OrderController.class,
  Shop.ShopController.class,
  Security.class
})
class Server implements AutoCloseable {
  /** Of Spring Boot 4, and of Spring Boot 3. */
  private static final String SECURITY =
      "org.springframework.boot.security.autoconfigure.rsocket.RSocketSecurityAutoConfiguration,"
          + "org.springframework.boot.autoconfigure.security.rsocket"
          + ".RSocketSecurityAutoConfiguration";

  private static final Map<String, Server> KEPT = new HashMap<>();

  private final ConfigurableApplicationContext context;
  private final String uri;

  private Server(ConfigurableApplicationContext context, String uri) {
    this.context = context;
    this.uri = uri;
  }

  /** Starts one, or takes one of the same kind that was started before. */
  static synchronized Server kept(String transport, int fragmentSize, String security) {
    return KEPT.computeIfAbsent(
        transport + fragmentSize + security, kind -> start(transport, fragmentSize, security));
  }

  /** Its own: by default, an application that closes ends the event loops of all others. */
  @Bean
  static ReactorResourceFactory resources() {
    ReactorResourceFactory resources = new ReactorResourceFactory();
    resources.setUseGlobalResources(false);
    return resources;
  }

  static Server start(String transport, int fragmentSize, String security) {
    ConfigurableApplicationContext context =
        new SpringApplicationBuilder(Server.class)
            .web(WebApplicationType.NONE)
            .properties(
                "spring.main.banner-mode=off",
                "spring.main.lazy-initialization=true",
                "spring.main.register-shutdown-hook=false",
                "logging.level.root=WARN",
                "logging.exception-conversion-word=%nopex",
                "security=" + security,
                "spring.rsocket.server.address=127.0.0.1",
                "spring.rsocket.server.port=0",
                "spring.rsocket.server.transport=" + (transport.equals("ws") ? "websocket" : "tcp"))
            .properties(security.equals("false")
                    ? Map.of("spring.autoconfigure.exclude", SECURITY)
                    : Map.of())
            .properties(
                fragmentSize == 0
                    ? Map.of()
                    : Map.of("spring.rsocket.server.fragment-size", fragmentSize + "B"))
            .run();
    String port = context.getEnvironment().getProperty("local.rsocket.server.port");
    return new Server(context, transport + "://127.0.0.1:" + port);
  }

  /** Those of an application that configures nothing. */
  RSocketStrategies strategies() {
    return context.getBean(RSocketStrategies.class);
  }

  String uri() {
    return uri;
  }

  @Override
  public void close() {
    context.close();
  }
}
