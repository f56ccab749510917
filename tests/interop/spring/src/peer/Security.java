package peer;

import java.util.List;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.security.authentication.BadCredentialsException;
import org.springframework.security.authentication.TestingAuthenticationToken;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.rsocket.EnableRSocketSecurity;
import org.springframework.security.config.annotation.rsocket.RSocketSecurity;
import org.springframework.security.core.Authentication;
import org.springframework.security.core.authority.SimpleGrantedAuthority;
import org.springframework.security.core.userdetails.MapReactiveUserDetailsService;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.rsocket.core.PayloadSocketAcceptorInterceptor;
import reactor.core.publisher.Mono;

/** Who may ask for what: users by name and password, or by a token. */
@Configuration(proxyBeanMethods = false)
@ConditionalOnProperty("security")
@EnableRSocketSecurity
class Security {
  @Bean
  PayloadSocketAcceptorInterceptor rules(
      RSocketSecurity security, @Value("${security}") String kind) {
    security.authorizePayload(
        rules ->
            rules
                .setup()
                .permitAll()
                .route("note")
                .permitAll()
                .route("numbers.*")
                .hasRole("ADMIN")
                .anyRequest()
                .authenticated()
                .anyExchange()
                .permitAll());
    return switch (kind) {
      case "simple" -> security.simpleAuthentication(Customizer.withDefaults()).build();
      case "bearer" ->
          security.jwt(jwt -> jwt.authenticationManager(Security::authenticate)).build();
      default -> throw new IllegalArgumentException(kind);
    };
  }

  @Bean
  MapReactiveUserDetailsService users() {
    return new MapReactiveUserDetailsService(
        User.withUsername("ada").password("{noop}pw").roles("USER").build(),
        User.withUsername("root").password("{noop}pw").roles("ADMIN").build());
  }

  private static Mono<Authentication> authenticate(Authentication bearer) {
    String token = bearer.getName();
    return switch (token) {
      case "token-of-ada" -> Mono.just(authenticated("ada", "ROLE_USER"));
      case "token-of-root" -> Mono.just(authenticated("root", "ROLE_ADMIN"));
      default -> Mono.error(new BadCredentialsException("this token is not valid"));
    };
  }

  private static Authentication authenticated(String name, String role) {
    return new TestingAuthenticationToken(name, null, List.of(new SimpleGrantedAuthority(role)));
  }
}
