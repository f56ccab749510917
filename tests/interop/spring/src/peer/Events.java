package peer;

import com.google.gson.JsonObject;
import java.io.PrintStream;

/** What one test is told. Lines of different threads do not mix: each is written at once. */
final class Events {
  private static volatile Events current;

  private final PrintStream sink;

  /** The handlers of all servers and clients tell this test from now on what they see. */
  Events(PrintStream sink) {
    this.sink = sink;
    current = this;
  }

  static JsonObject event(int id, String name) {
    JsonObject event = new JsonObject();
    event.addProperty("id", id);
    event.addProperty("event", name);
    return event;
  }

  void say(JsonObject event) {
    sink.println(event.toString());
  }

  void say(int id, String name) {
    say(event(id, name));
  }

  void sayError(int id, Throwable failure) {
    JsonObject event = event(id, "error");
    event.addProperty("message", String.valueOf(failure.getMessage()));
    event.addProperty("type", failure.getClass().getSimpleName());
    say(event);
  }

  /** Says what a handler has seen. */
  static void seen(String what) {
    JsonObject event = new JsonObject();
    event.addProperty("event", what);
    current.say(event);
  }
}
