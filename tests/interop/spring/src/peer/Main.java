package peer;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/**
 * Spring as the server and as the client. Says on which port it takes commands, and ends with its
 * stdin: Spring takes a second to start, so one program serves all tests of a run. Each test has a
 * connection of its own for its commands, see {@link Session}.
 */
final class Main {
  private Main() {}

  public static void main(String[] arguments) throws IOException {
    ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    System.out.println(listener.getLocalPort());
    // Nobody reads more of it; what Spring logs is for a test that fails.
    System.setOut(System.err);
    Thread commands = new Thread(() -> accept(listener));
    commands.setDaemon(true);
    commands.start();
    while (System.in.read() >= 0) {
      // It is told nothing.
    }
    System.exit(0);
  }

  private static void accept(ServerSocket listener) {
    // One after the other: a test that has ended has no say any more.
    while (true) {
      try (Socket socket = listener.accept();
          Session session = new Session(socket)) {
        session.run();
      } catch (IOException broken) {
        broken.printStackTrace();
      }
    }
  }
}
