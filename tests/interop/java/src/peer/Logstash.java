package peer;

import com.google.gson.Gson;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.timeout.IdleStateHandler;
import java.net.InetSocketAddress;
import java.util.LinkedHashMap;
import java.util.Map;
import org.logstash.beats.AckEncoder;
import org.logstash.beats.BeatsHandler;
import org.logstash.beats.BeatsParser;
import org.logstash.beats.IMessageListener;
import org.logstash.beats.Message;

/**
 * {@code Logstash [DELAY [PORT [quiet]]]}: the Beats input of Logstash as the server, without a pipeline
 * behind it. It prints each event as a JSON line, and waits DELAY milliseconds with each event, as a
 * slow pipeline would. It serves until it is killed or its stdin ends. If it is quiet, it prints no
 * events, so that a benchmark measures the input.
 *
 * <p>The handlers are those of its own server, in the same order. That server listens on all
 * addresses of the machine, this one only on the loopback address.
 */
final class Logstash {
  private static final String HOST = "127.0.0.1";
  private static final int KEEPALIVE_SECONDS = 5;

  private Logstash() {}

  public static void main(String[] arguments) throws Exception {
    long delay = arguments.length > 0 ? Long.parseLong(arguments[0]) : 0;
    int port = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 0;
    Printer printer = new Printer(delay, arguments.length > 2 && arguments[2].equals("quiet"));
    Channel channel =
        new ServerBootstrap()
            .group(new NioEventLoopGroup(1), new NioEventLoopGroup(2))
            .channel(NioServerSocketChannel.class)
            .childHandler(
                new ChannelInitializer<SocketChannel>() {
                  @Override
                  public void initChannel(SocketChannel socket) {
                    socket
                        .pipeline()
                        .addLast(new IdleStateHandler(60, KEEPALIVE_SECONDS, 0))
                        .addLast(new BeatsParser())
                        .addLast(new AckEncoder())
                        .addLast(new BeatsHandler(printer));
                  }
                })
            .bind(HOST, port)
            .sync()
            .channel();
    int bound = ((InetSocketAddress) channel.localAddress()).getPort();
    System.out.printf("listening on lumberjack://%s:%d%n", HOST, bound);
    while (System.in.read() >= 0) {
      // It is told nothing.
    }
    System.exit(0);
  }

  /** Prints what happens. */
  private static final class Printer implements IMessageListener {
    private static final Gson GSON = new Gson();
    private final long delay;
    private final boolean quiet;

    Printer(long delay, boolean quiet) {
      this.delay = delay;
      this.quiet = quiet;
    }

    private static void say(String event, Object value) {
      Map<String, Object> line = new LinkedHashMap<>();
      line.put(event, value);
      String text = GSON.toJson(line);
      synchronized (System.out) {
        System.out.println(text);
      }
    }

    @Override
    public void onNewMessage(ChannelHandlerContext context, Message message) {
      Object data = message.getData(); // This decodes it.
      if (quiet) {
        return;
      }
      say("event", data);
      try {
        Thread.sleep(delay);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
    }

    @Override
    public void onNewConnection(ChannelHandlerContext context) {
      say("connected", String.valueOf(context.channel().remoteAddress()));
    }

    @Override
    public void onConnectionClose(ChannelHandlerContext context) {
      say("closed", String.valueOf(context.channel().remoteAddress()));
    }

    @Override
    public void onException(ChannelHandlerContext context, Throwable error) {
      say("failed", String.valueOf(error));
    }

    @Override
    public void onChannelInitializeException(ChannelHandlerContext context, Throwable error) {
      say("failed", String.valueOf(error));
    }
  }
}
