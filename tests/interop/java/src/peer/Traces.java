package peer;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import org.reactivestreams.example.unicast.AsyncIterablePublisher;
import org.reactivestreams.example.unicast.NumberIterablePublisher;
import org.reactivestreams.example.unicast.RangePublisher;

/**
 * Prints what subscribers of the publishers of reactive-streams-examples see. Reads patterns, one a
 * line, in JSON, and answers each with the list of its signals and calls in a line.
 */
final class Traces {
  private static final Gson GSON = new Gson();

  private Traces() {}

  /** What the subscriber does: a number is a request, 0 and less too; "cancel" cancels. */
  private static final class Pattern {
    String publisher;
    int elements;
    String[] inSubscribe;
    String[] inNext;
    String[] steps;
  }

  private static final class Recorder implements Subscriber<Integer> {
    final List<String> trace = new ArrayList<>();
    private final Pattern pattern;
    private Subscription subscription;

    Recorder(Pattern pattern) {
      this.pattern = pattern;
    }

    void perform(String[] steps) {
      for (String step : steps) {
        trace.add(step.equals("cancel") ? "cancel()" : "request(" + step + ")");
        if (step.equals("cancel")) {
          subscription.cancel();
        } else {
          subscription.request(Long.parseLong(step));
        }
      }
    }

    @Override
    public void onSubscribe(Subscription subscription) {
      this.subscription = subscription;
      trace.add("on_subscribe");
      perform(pattern.inSubscribe);
    }

    @Override
    public void onNext(Integer element) {
      trace.add("on_next " + element);
      perform(pattern.inNext);
    }

    @Override
    public void onError(Throwable error) {
      trace.add("on_error " + error.getClass().getSimpleName());
    }

    @Override
    public void onComplete() {
      trace.add("on_complete");
    }
  }

  private static Publisher<Integer> publisher(Pattern pattern) {
    Iterable<Integer> elements = () -> IntStream.range(0, pattern.elements).iterator();
    return switch (pattern.publisher) {
      case "AsyncIterablePublisher" -> new AsyncIterablePublisher<>(elements, Runnable::run);
      case "NumberIterablePublisher" ->
          new NumberIterablePublisher(0, pattern.elements, Runnable::run);
      case "RangePublisher" -> new RangePublisher(0, pattern.elements);
      default -> throw new IllegalArgumentException(pattern.publisher);
    };
  }

  public static void main(String[] arguments) throws IOException {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Pattern pattern = GSON.fromJson(line, Pattern.class);
      Recorder recorder = new Recorder(pattern);
      publisher(pattern).subscribe(recorder);
      recorder.perform(pattern.steps);
      System.out.println(GSON.toJson(recorder.trace));
    }
  }
}
